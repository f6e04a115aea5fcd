import type { ClientSigner, ClientTable } from '../../config/clients/clients-file.ts'
import type { Fault } from '../../config/faults.ts'
import { KeySet, readKeys } from '../keys/jwks.ts'
import type { Signer } from './message-verifier.ts'

interface ClientKeysOptions {
  readonly clock: () => number
  /** Reports a problem with a client's keys, once while it lasts. */
  readonly onFault: (client: string, uri: string, cause: string) => void
}

/** The clients that sign requests, with their keys. */
export class ClientKeys {
  readonly #options: ClientKeysOptions
  #signers: ReadonlyMap<string, Signer> = new Map()
  #isFetching = false

  constructor(options: ClientKeysOptions) {
    this.#options = options
  }

  /** Undefined for a client that does not sign. */
  of(client: string | undefined): Signer | undefined {
    return client === undefined ? undefined : this.#signers.get(client)
  }

  get all(): readonly Signer[] {
    return [...this.#signers.values()]
  }

  /** Puts another table in force. Keys of an address that stays are kept. */
  replace(signers: ClientTable['signers']): void {
    const before = this.#signers
    this.#signers = new Map(
      [...signers].map(([client, { principal, profile, keys }]) => {
        const known = before.get(client)?.keys
        const kept = known?.uri === keys.uri && keys.document === undefined ? known : undefined
        return [client, { principal, profile, keys: kept ?? this.#keySet(client, keys) }]
      }),
    )
    const kept = new Set(this.all.map(({ keys }) => keys))
    for (const { keys } of before.values()) if (!kept.has(keys)) keys.stop()
    if (this.#isFetching) this.start()
  }

  /** Fetches the keys, now and again. May be repeated. */
  start(): void {
    this.#isFetching = true
    for (const { keys } of this.all) keys.start()
  }

  stop(): void {
    this.#isFetching = false
    for (const { keys } of this.all) keys.retire()
  }

  #keySet(client: string, { uri, document }: ClientSigner['keys']): KeySet {
    const keys = new KeySet({
      uri,
      ...(document !== undefined && { fetch: async () => document }),
      clock: this.#options.clock,
      onFault: (cause) => this.#options.onFault(client, uri, cause),
    })
    if (document !== undefined) keys.restore({ uri, document, ageMs: 0 })
    return keys
  }
}

/** Faults of files without a usable key. @param file clients.json */
export function clientKeyFaults(file: string, { rows, signers }: ClientTable): Fault[] {
  return rows.flatMap(({ id }, index) => {
    const document = signers.get(id)?.keys.document
    const faults: string[] = []
    if (document === undefined || readKeys(document, faults).size > 0) return []
    const path = `$.clients[${index}].signature.jwksFile`
    return [
      { file, path, reason: `names a file without a usable key: ${faults.join('; ') || 'it has none'}` },
    ]
  })
}
