import { randomBytes } from 'node:crypto'
import type { StoreSettings } from '../config/rules/store-address.ts'
import { StoreConnection } from './connection/store-connection.ts'
import type { Send, StoreReply } from './connection/store-link.ts'
import { SharedTakes } from './shared-takes.ts'
import { type BreakerObserver, REAL_TIMERS, StoreBreaker } from './store-breaker.ts'
import { newStoreCounts, type StoreCounts } from './store-counts.ts'
import { StoreKeys } from './store-keys.ts'

interface SharedStoreObserver extends BreakerObserver {
  onFault(cause: string): void
  /** Called at the first connection to the store, and after each loss of data. */
  onNewData?(): void
}

const AGREE_AGAIN_MS = 200

/** Reads the key on which gateways have agreed. @throws (rejects) when they have not agreed, or the store fails */
export async function agreedKeys({ prefix, hashKey }: StoreSettings, send: Send): Promise<StoreKeys> {
  const keys = new StoreKeys(prefix, hashKey ?? '')
  const get = (name: string) => send(['GET', keys.common(name)], keys.common(name))
  const [left, mark] = await Promise.all([get('hash-key'), get('key-mark')])
  const said = hashKey === undefined ? left : mark
  if (typeof said !== 'string')
    throw new Error(
      'no gateway has left its key in the store: the store lost its data, or gateways use another GATEWAY_STORE_PREFIX or GATEWAY_STORE_KEY_FILE',
    )
  if (hashKey === undefined) {
    if (mark !== null)
      throw new Error(
        `gateways have also used this store with a GATEWAY_STORE_KEY_FILE: set that variable, or remove ${keys.common('key-mark')} from the store`,
      )
    keys.rekey(said)
  } else if (!said.startsWith(`${keys.hashOf('mark')}.`))
    throw new Error('gateways have another GATEWAY_STORE_KEY_FILE')
  return keys
}

/** Import it by `import()`, and only when a store is set: its client takes 170 ms and 30 MB to load. */
export class SharedStore {
  readonly connection: StoreConnection
  readonly breaker: StoreBreaker
  readonly keys: StoreKeys
  readonly counts: StoreCounts = newStoreCounts()
  readonly takes: SharedTakes
  readonly #isKeyGiven: boolean
  readonly #observer: SharedStoreObserver
  #hasAgreed: boolean
  #agreement = 0
  #isShared = true
  /** New after each loss of the store's data. */
  #mark: string | undefined
  /** Mark of gateways with a GATEWAY_STORE_KEY_FILE, if this gateway has none. */
  #givenMark: StoreReply = null

  /** Connects in the background. @param deadlineMs for each reply */
  constructor(settings: StoreSettings, observer: SharedStoreObserver, deadlineMs?: number) {
    const timers = REAL_TIMERS
    const { prefix, hashKey } = settings
    this.#observer = observer
    this.#isKeyGiven = this.#hasAgreed = hashKey !== undefined
    this.keys = new StoreKeys(prefix, hashKey ?? randomBytes(32).toString('base64url'))
    this.connection = new StoreConnection(settings, (cause) => observer.onFault(cause))
    // Comes before the breaker, so that the key is asked for before the breaker probes.
    this.connection.onReady(() => this.#agree(++this.#agreement))
    const { connection, counts, keys } = this
    const probeKey = keys.common('{start}')
    this.breaker = new StoreBreaker({
      connection,
      counts,
      timers,
      observer,
      probeKey,
      isUsable: () => this.#hasAgreed,
      ...(deadlineMs !== undefined && { deadlineMs }),
    })
    const isCluster = settings.kind === 'cluster'
    this.takes = new SharedTakes({ breaker: this.breaker, keys, counts, timers, isCluster })
  }

  /** True once the store has responded and the hash key is known. */
  get wasReached(): boolean {
    return this.breaker.wasReached && this.#hasAgreed
  }

  /** False when gateways have, or had, different hash keys. Then none finds what another has written. */
  get isShared(): boolean {
    return this.#isShared
  }

  /** Called once a second. @param onLost called when the data was lost while connected */
  look(onLost: () => void): void {
    this.#compare(this.#markKey, () => this.#mark, onLost)
    if (!this.#isKeyGiven) this.#compare(this.#givenMarkKey, () => this.#givenMark)
  }

  /** Agrees again when the value has changed. */
  #compare(key: string, known: () => StoreReply | undefined, onChange?: () => void): void {
    this.breaker.send({
      args: ['GET', key],
      key,
      done: (reply) => {
        if (reply === undefined || reply === known()) return
        this.#agree(++this.#agreement)
        onChange?.()
      },
    })
  }

  close(): void {
    this.#agreement = 0
    this.breaker.close()
    this.connection.close()
  }

  /** Takes over the key of the store, or leaves ours there. Done at each connection, as the key may be lost. */
  #agree(agreement: number): void {
    const { connection, keys } = this
    const key = keys.common('hash-key')
    const put = (name: string, value: string) =>
      connection.send(['SET', name, value, 'NX'], name).catch(() => undefined)
    const again = () => agreement === this.#agreement && this.#agree(agreement)
    put(this.#markKey, `${this.#check}.${randomBytes(16).toString('base64url')}`)
    if (!this.#isKeyGiven) put(key, keys.hashKey)
    const got = [this.#markKey, ...(this.#isKeyGiven ? [] : [key, this.#givenMarkKey])].map((name) =>
      connection.send(['GET', name], name),
    )
    Promise.all(got).then(
      ([mark, hashKey = keys.hashKey, givenMark = null]) => {
        if (agreement !== this.#agreement) return
        this.#givenMark = givenMark
        if (typeof mark === 'string' && typeof hashKey === 'string') this.#takeOver(mark, hashKey)
        // A full server or a replica stores no key.
        else setTimeout(again, AGREE_AGAIN_MS).unref()
      },
      // The server may still be loading its data.
      () => void setTimeout(again, AGREE_AGAIN_MS).unref(),
    )
  }

  #takeOver(mark: string, hashKey: string): void {
    const isNew = mark !== this.#mark
    this.#mark = mark
    this.keys.rekey(hashKey)
    this.#hasAgreed = true
    if (isNew) this.#observer.onNewData?.()
    this.#isShared = mark.startsWith(`${this.#check}.`) && this.#givenMark === null
    if (this.#isShared) return
    const others = this.#isKeyGiven
      ? 'different GATEWAY_STORE_KEY_FILEs'
      : 'a GATEWAY_STORE_KEY_FILE, but this one has none'
    this.#observer.onFault(
      `gateways have ${others}, so they share nothing: give all the same file. If they have it, remove ${this.#givenMarkKey}`,
    )
  }

  get #markKey(): string {
    return this.#isKeyGiven ? this.#givenMarkKey : this.keys.common('mark')
  }

  get #givenMarkKey(): string {
    return this.keys.common('key-mark')
  }

  /** Differs where operators have given gateways different keys. */
  get #check(): string {
    return this.#isKeyGiven ? this.keys.hashOf('mark') : ''
  }
}
