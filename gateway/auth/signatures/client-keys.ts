import type { ClientSigner, ClientTable } from '../../config/clients/clients-file.ts'
import type { Fault } from '../../config/faults.ts'
import { KeySet, readKeys } from '../keys/jwks.ts'
import type { VerificationKey } from '../keys/verification-key.ts'
import type { KeyOwner, SignatureForm, Signer } from './presented-signatures.ts'
import { SIGNATURE_FORMS } from './signature-forms.ts'

interface ClientKeysOptions {
  readonly clock: () => number
  readonly onFault: (client: string, uri: string, cause: string) => void
}

const COOLING_MS = 10_000
const MAX_REFRESHED = 8

export class ClientKeys {
  readonly #options: ClientKeysOptions
  #signers: ReadonlyMap<string, Signer> = new Map()
  #all: readonly Signer[] = []
  /** Clients by what `namesOf` gives for their keys. */
  readonly #owners = new Map<string, Set<string>>()
  #forms: readonly SignatureForm[] = [SIGNATURE_FORMS['rfc-9421']]
  #refreshing: Promise<unknown> | undefined
  #refreshedAtMs = Number.NEGATIVE_INFINITY
  #isFetching = false

  constructor(options: ClientKeysOptions) {
    this.#options = options
  }

  of(client: string | undefined): Signer | undefined {
    return client === undefined ? undefined : this.#signers.get(client)
  }

  get all(): readonly Signer[] {
    return this.#all
  }

  /** The client that must have signed, because there is no other. */
  get only(): Signer | undefined {
    return this.#all.length === 1 ? this.#all[0] : undefined
  }

  /** Forms in which clients sign; RFC 9421 alone if no client signs. */
  get forms(): readonly SignatureForm[] {
    return this.#forms
  }

  /** Finds owners in the order of trial: first the owner of the key with this thumbprint, then by `rank`. */
  ownersOf(kid: string): readonly KeyOwner[] {
    const owners = [...(this.#owners.get(`kid ${kid}`) ?? [])].flatMap((client) => {
      const signer = this.#signers.get(client)
      if (signer === undefined) return []
      return signer.keys.named(kid).map((key) => ({ signer, key, rival: this.#rivalOf(client, key) }))
    })
    const placeOf = ({ signer, key }: KeyOwner) => (key.thumbprint === kid ? -1 : signer.rank)
    return owners.sort((one, other) => placeOf(one) - placeOf(other))
  }

  #rivalOf(client: string, { thumbprint }: VerificationKey): Signer | undefined {
    for (const other of this.#owners.get(`key ${thumbprint}`) ?? [])
      if (other !== client) return this.of(other)
    return undefined
  }

  /**
   * Fetches the keys of the 8 clients whose keys were fetched longest ago, at most once in 10 s, because anybody can
   * invent a key name. Never rejects.
   */
  refresh(): Promise<unknown> {
    const nowMs = this.#options.clock()
    if (this.#refreshing !== undefined && Math.abs(nowMs - this.#refreshedAtMs) < COOLING_MS)
      return this.#refreshing
    this.#refreshedAtMs = nowMs
    const fetched = this.all.map(({ keys }) => keys).filter(({ uri }) => /^https?:/.test(uri))
    const oldest = fetched.sort((one, other) => one.triedAtMs - other.triedAtMs).slice(0, MAX_REFRESHED)
    this.#refreshing = Promise.all(oldest.map((keys) => keys.refresh()))
    return this.#refreshing
  }

  /** A client keeps its fetched keys if their address stays. */
  replace(signers: ClientTable['signers']): void {
    const before = this.#signers
    this.#signers = new Map(
      [...signers].map(([client, { principal, profile, keys }], index) => {
        const rank = index + (keys.document === undefined ? signers.size : 0)
        const known = before.get(client)?.keys
        const kept = known?.uri === keys.uri && keys.document === undefined ? known : undefined
        return [client, { principal, profile, rank, keys: kept ?? this.#keySet(client, keys) }]
      }),
    )
    this.#all = [...this.#signers.values()]
    this.#owners.clear()
    for (const [client, { keys }] of this.#signers) this.#add(client, keys.all)
    const forms = new Set(this.all.map(({ profile }) => SIGNATURE_FORMS[profile.form]))
    this.#forms = forms.size === 0 ? [SIGNATURE_FORMS['rfc-9421']] : [...forms]
    const kept = new Set(this.all.map(({ keys }) => keys))
    for (const { keys } of before.values()) if (!kept.has(keys)) keys.stop()
    if (this.#isFetching) this.start()
  }

  start(): void {
    this.#isFetching = true
    for (const { keys } of this.all) keys.start()
  }

  stop(): void {
    this.#isFetching = false
    for (const { keys } of this.all) keys.retire()
  }

  #add(client: string, keys: Iterable<VerificationKey>): void {
    for (const name of [...keys].flatMap(namesOf))
      this.#owners.getOrInsertComputed(name, () => new Set()).add(client)
  }

  #remove(client: string, keys: Iterable<VerificationKey>): void {
    for (const name of [...keys].flatMap(namesOf)) {
      const clients = this.#owners.get(name)
      clients?.delete(client)
      if (clients?.size === 0) this.#owners.delete(name)
    }
  }

  #keySet(client: string, { uri, document }: ClientSigner['keys']): KeySet {
    const keys = new KeySet({
      uri,
      ...(document !== undefined && { fetch: async () => document }),
      clock: this.#options.clock,
      onFault: (cause) => this.#options.onFault(client, uri, cause),
      onChange: (before, now) => {
        this.#remove(client, before)
        this.#add(client, now)
      },
    })
    if (document !== undefined) keys.restore({ uri, document, ageMs: 0 })
    return keys
  }
}

function namesOf({ kid, thumbprint }: VerificationKey): readonly string[] {
  return [`kid ${kid}`, `key ${thumbprint}`]
}

/** @param file clients.json */
export function clientKeyFaults(file: string, { rows, signers }: ClientTable): Fault[] {
  return rows.flatMap(({ id }, index) => {
    const document = signers.get(id)?.keys.document
    const faults: string[] = []
    if (document === undefined || readKeys(document, faults).length > 0) return []
    const path = `$.clients[${index}].signature.jwksFile`
    return [
      { file, path, reason: `names a file without a usable key: ${faults.join('; ') || 'it has none'}` },
    ]
  })
}
