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
  readonly memory: Pick<ReplayMemory, 'take' | 'lookUp' | 'keep' | 'maintain' | 'entries'>
  readonly clock: () => number
  readonly breaker: Pick<StoreBreaker, 'send'>
  readonly keys: StoreKeys
  readonly space: string
  readonly lifetimeMs: number
  /** While the store is away, `deny` refuses every message, `local` asks this gateway's memory. */
  readonly onStoreFailure: 'deny' | 'local'
  readonly id: string
}

/** Further refused messages stay taken until they expire. */
const MAX_UNSURE = 10_000
/** More commands at once than a connection accepts would count as a failure of the store. */
const MAX_BATCH = 200
/** Done one second apart, because a command of a lost connection may run after those of the next. */
export const TAKEN_BACK_TIMES = 3

const MAX_ATTEMPTS = 8

/** ARGV: the values that this gateway may have written. */
const TAKE_BACK_SCRIPT = `
local value = redis.call('GET', KEYS[1])
for _, ours in ipairs(ARGV) do
  if value == ours then return redis.call('DEL', KEYS[1]) end
end
return 0
`

/** Commands without a reply, whose message was refused and must not stay taken. */
interface Unsure {
  readonly values: string[]
  timesLeft: number
}

export class SharedReplays implements ReplayGuard, DeliveryGuard {
  readonly #options: SharedReplaysOptions
  readonly #unsure = new Map<string, Unsure>()
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

  /** See ReplayMemory.take. `away`: the message is refused. */
  async take(key: string, sender: string): Promise<ReplayFault | undefined> {
    const { keys, space, lifetimeMs, id, memory } = this.#options
    const storeKey = keys.keyOfOnce(space, digestOf(key, sender))
    const value = `${id}.${++this.#count}`
    const unsure = this.#unsure.get(storeKey)
    // First: what the sender's last attempt left must not refuse this one.
    if (unsure !== undefined) this.#takeBack(storeKey, unsure)
    const args = ['SET', storeKey, value, 'NX', 'PX', String(lifetimeMs)]
    const reply = await this.#ask(args, storeKey, (text) => text === 'OK' || text === null)
    // Other faults of the memory do not matter: the store has the message.
    if (reply !== undefined)
      return reply === null || memory.take(key, sender) === 'replayed' ? 'replayed' : undefined
    const fault = this.#onStoreFailure === 'local' ? memory.take(key, sender) : 'away'
    // A refused message may come again. A replay was taken by another command.
    if (fault !== undefined && fault !== 'replayed') this.#remember(storeKey, value)
    return fault
  }

  /** See ReplayMemory.lookUp. `away`: the message is refused. */
  async lookUp(key: string, sender: string): Promise<ReplayFault | undefined> {
    const { keys, space, memory } = this.#options
    const here = memory.lookUp(key, sender)
    if (here === 'replayed') return here
    const storeKey = keys.keyOfOnce(space, digestOf(key, sender))
    const fits = (reply: StoreReply) => reply === null || typeof reply === 'string'
    const reply = await this.#ask(['GET', storeKey], storeKey, fits)
    if (reply !== undefined) return reply === null ? undefined : 'replayed'
    return this.#onStoreFailure === 'local' ? here : 'away'
  }

  /** See ReplayMemory.keep. A message that the store does not get is written later. */
  keep(key: string, sender: string): void {
    const { keys, space, memory, clock } = this.#options
    const atMs = clock()
    memory.keep(key, sender)
    void this.#write(keys.keyOfOnce(space, digestOf(key, sender))).then((reply) => {
      if (reply === undefined) this.#lackingSinceMs = Math.min(atMs, this.#lackingSinceMs ?? atMs)
    })
  }

  /** @returns undefined: the store is away */
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
      // Moves it behind those that wait.
      this.#unsure.delete(key)
      this.#unsure.set(key, unsure)
      this.#takeBack(key, unsure)
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

  #takeBack(key: string, unsure: Unsure): void {
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
