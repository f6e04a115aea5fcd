import {
  type DeliveryGuard,
  digestOf,
  type ReplayFault,
  type ReplayGuard,
  type ReplayMemory,
} from '../auth/replay.ts'
import type { StoreReply } from './connection/store-link.ts'
import type { StoreBreaker } from './store-breaker.ts'
import type { StoreKeys } from './store-keys.ts'

interface SharedReplaysOptions {
  readonly memory: Pick<ReplayMemory, 'take' | 'begin' | 'end' | 'maintain' | 'entries'>
  readonly clock: () => number
  readonly breaker: Pick<StoreBreaker, 'send'>
  readonly keys: StoreKeys
  readonly space: string
  readonly lifetimeMs: number
  /** While the store is away, `deny` refuses every message, `local` asks this gateway's memory. */
  readonly onStoreFailure: 'deny' | 'local'
  readonly id: string
}

/** Refused messages beyond this number stay taken until they expire. */
const MAX_UNSURE = 10_000
/** More commands at once than a connection accepts would count as a failure of the store. */
const MAX_BATCH = 200
/** Number of times that a message is taken back, a second apart: a command of a lost connection may run late. */
export const TAKEN_BACK_TIMES = 3

/** A message that a dead gateway had under way stays in progress for this time. */
export const LEASE_MS = 30_000
export const RENEW_MS = 10_000

const MAX_ATTEMPTS = 8

/** ARGV: the values that this gateway may have written. */
const TAKE_BACK_SCRIPT = `
local value = redis.call('GET', KEYS[1])
for _, ours in ipairs(ARGV) do
  if value == ours then return redis.call('DEL', KEYS[1]) end
end
return 0
`

/** ARGV: our value, its milliseconds. Writes the value again if the store has lost it. */
const RENEW_SCRIPT = `
local value = redis.call('GET', KEYS[1])
if not value or value == ARGV[1] then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
`

/** A message under way. */
interface Lease {
  readonly storeKey: string
  readonly value: string
  readonly renewal: NodeJS.Timeout
}

/** Commands without a reply, whose message was refused and must not stay taken. */
interface Unsure {
  readonly values: string[]
  timesLeft: number
}

export class SharedReplays implements ReplayGuard, DeliveryGuard {
  readonly #options: SharedReplaysOptions
  readonly #unsure = new Map<string, Unsure>()
  readonly #leases = new Map<string, Lease>()
  #onStoreFailure: SharedReplaysOptions['onStoreFailure']
  #count = 0
  /** Time since which accepted messages may be missing in the store. */
  #lackingSinceMs: number | undefined
  #unwritten: Iterator<readonly [digest: string, atMs: number]> | undefined

  constructor(options: SharedReplaysOptions) {
    this.#options = options
    this.#onStoreFailure = options.onStoreFailure
  }

  change(onStoreFailure: SharedReplaysOptions['onStoreFailure']): void {
    this.#onStoreFailure = onStoreFailure
  }

  /** See ReplayMemory.take. */
  async take(key: string, sender: string): Promise<ReplayFault | undefined> {
    const { lifetimeMs, memory } = this.#options
    const storeKey = this.#keyOf(key, sender)
    const value = this.#nextValue()
    const reply = await this.#claim(storeKey, value, lifetimeMs)
    // Other faults of the memory do not matter, because the store keeps the message.
    if (reply !== undefined)
      return reply === null || memory.take(key, sender) === 'replayed' ? 'replayed' : undefined
    const fault = this.#onStoreFailure === 'local' ? memory.take(key, sender) : 'away'
    // A refused message may come again, so it must not stay taken. A replay was taken by another command.
    if (fault !== undefined && fault !== 'replayed') this.#remember(storeKey, value)
    return fault
  }

  /** Takes a message under a lease. Call `end` after a fault too. */
  async begin(keys: readonly string[], sender: string): Promise<ReplayFault | undefined> {
    const here = this.#options.memory.begin(keys, sender)
    if (here === 'replayed') return here
    // Takes one key after the other, so that one of two gateways with a copy gets all keys.
    for (const key of keys) {
      const storeKey = this.#keyOf(key, sender)
      const value = this.#nextValue()
      const reply = await this.#claim(storeKey, value, LEASE_MS)
      if (reply === null) return 'replayed'
      const renew = () => this.#ask(['EVAL', RENEW_SCRIPT, '1', storeKey, value, `${LEASE_MS}`], storeKey)
      this.#leases.set(key, { storeKey, value, renewal: setInterval(renew, RENEW_MS).unref() })
      const fault = this.#onStoreFailure === 'local' ? here : 'away'
      if (reply === undefined && fault !== undefined) return fault
    }
    return undefined
  }

  /** Keeps a message if `isTaken`, and frees it if not. What the store does not get is written later. */
  end(keys: readonly string[], sender: string, isTaken: boolean): void {
    const { memory, clock } = this.#options
    const atMs = clock()
    memory.end(keys, sender, isTaken)
    for (const key of keys) {
      const lease = this.#leases.get(key)
      this.#leases.delete(key)
      clearInterval(lease?.renewal)
      if (isTaken)
        void this.#write(this.#keyOf(key, sender)).then((reply) => {
          if (reply === undefined) this.#lackingSinceMs = Math.min(atMs, this.#lackingSinceMs ?? atMs)
        })
      else if (lease !== undefined) void this.#free(lease)
    }
  }

  async #free({ storeKey, value }: Lease): Promise<void> {
    const reply = await this.#ask(['EVAL', TAKE_BACK_SCRIPT, '1', storeKey, value], storeKey)
    if (reply === undefined) this.#remember(storeKey, value)
  }

  #keyOf(key: string, sender: string): string {
    const { keys, space } = this.#options
    return keys.keyOfOnce(space, digestOf(key, sender))
  }

  #nextValue(): string {
    return `${this.#options.id}.${++this.#count}`
  }

  /** @returns null when the store has the message already, undefined when the store is away */
  #claim(key: string, value: string, ms: number): Promise<StoreReply | undefined> {
    // Done first, because what the sender's last attempt left must not refuse this attempt.
    this.#takeBack(key)
    return this.#ask(['SET', key, value, 'NX', 'PX', `${ms}`], key, (text) => text === 'OK' || text === null)
  }

  /** @returns undefined while the store is away */
  #ask(
    args: readonly string[],
    key: string,
    fits?: (reply: StoreReply) => boolean,
  ): Promise<StoreReply | undefined> {
    const { promise, resolve: done } = Promise.withResolvers<StoreReply | undefined>()
    this.#options.breaker.send({ args, key, done, ...(fits && { fits }) })
    return promise
  }

  /** Writes an accepted message for a whole lifetime, over what a refused attempt left. */
  #write(key: string): Promise<StoreReply | undefined> {
    const { lifetimeMs, id } = this.#options
    return this.#ask(['SET', key, `${id}.0`, 'PX', String(lifetimeMs)], key)
  }

  maintain(): void {
    this.#options.memory.maintain()
  }

  /** Writes accepted messages into a store that was away or lost data. @param sinceMs by the clock of the memory */
  writeBack(sinceMs: number): void {
    this.#lackingSinceMs = Math.min(sinceMs, this.#lackingSinceMs ?? sinceMs)
    const isWriting = this.#unwritten !== undefined
    this.#unwritten = this.#options.memory.entries()[Symbol.iterator]()
    if (!isWriting) void this.#writeSome()
  }

  /** Takes back what refused messages left, and writes what the store lacks. Called once a second. */
  maintainStore(): void {
    if (this.#lackingSinceMs !== undefined && this.#unwritten === undefined)
      this.writeBack(this.#lackingSinceMs)
    let left = MAX_BATCH
    for (const [key, unsure] of [...this.#unsure]) {
      if (left-- === 0) return
      // Moves this message to the end of the queue.
      this.#unsure.delete(key)
      this.#unsure.set(key, unsure)
      this.#takeBack(key)
    }
  }

  async #writeSome(): Promise<void> {
    const { keys, space, lifetimeMs, clock } = this.#options
    const nowMs = clock()
    const lacking: string[] = []
    for (let looked = 0; looked < MAX_BATCH; looked++) {
      const next = this.#unwritten?.next()
      if (next === undefined || next.done === true) {
        this.#unwritten = undefined
        break
      }
      const [digest, atMs] = next.value
      if (atMs >= (this.#lackingSinceMs ?? nowMs) && atMs + lifetimeMs > nowMs)
        lacking.push(keys.keyOfOnce(space, digest))
    }
    const replies = await Promise.all(lacking.map((key) => this.#write(key)))
    if (replies.includes(undefined)) this.#unwritten = undefined
    else if (this.#unwritten === undefined) this.#lackingSinceMs = undefined
    else setImmediate(() => void this.#writeSome())
  }

  #takeBack(key: string): void {
    const unsure = this.#unsure.get(key)
    if (unsure === undefined) return
    this.#options.breaker.send({
      args: ['EVAL', TAKE_BACK_SCRIPT, '1', key, ...unsure.values],
      key,
      done: (reply) => {
        if (reply === undefined || --unsure.timesLeft > 0) return
        if (this.#unsure.get(key) === unsure) this.#unsure.delete(key)
      },
    })
  }

  #remember(storeKey: string, value: string): void {
    const unsure = this.#unsure.get(storeKey)
    if (unsure !== undefined) {
      unsure.values.push(value)
      if (unsure.values.length > MAX_ATTEMPTS) unsure.values.shift()
      unsure.timesLeft = TAKEN_BACK_TIMES
    } else if (this.#unsure.size < MAX_UNSURE) {
      this.#unsure.set(storeKey, { values: [value], timesLeft: TAKEN_BACK_TIMES })
    }
  }
}
