import { hash } from 'node:crypto'
import { type KeySharing, RememberedKeys } from '../storage/expiring-keys.ts'
import type { KeyForm } from '../storage/expiring-keys-file.ts'

export interface ReplayMemoryOptions {
  /** Each message is remembered for this long: at least as long as any moment at which it could still be accepted. */
  readonly lifetimeMs: number
  /** Messages remembered at once, about 180 bytes each; one more is refused. Default 500,000. */
  readonly maxEntries?: number
  /** Epoch milliseconds. */
  readonly clock: () => number
  /** Undefined: memory only, so that a restart forgets. */
  readonly store?: ReplayStore | undefined
  /** Undefined: this thread is the only one. */
  readonly sharing?: KeySharing | undefined
}

export interface ReplayStore {
  /** Made when it is not there. */
  readonly dataDir: string
  /** The files are `<name>.ndjson` and `<name>.old.ndjson`. */
  readonly name: string
  /** Told of anything wrong with the file; what was seen stays refused as long as the process lives. */
  readonly onFault: (cause: string) => void
  /** Told when the files were removed under the gateway, and are begun anew. */
  readonly onRemoved?: ((cause: string) => void) | undefined
}

/**
 * `replayed`: seen before. `full`: new, but there is no room to remember it, so it must not be let in. `unwritable`: new,
 * but a crash would forget it, so it must not be let in either; it may be sent again.
 */
export type ReplayFault = 'replayed' | 'full' | 'unwritable'

const DEFAULT_MAX_ENTRIES = 500_000
const DIGEST = /^[A-Za-z0-9_-]{43}$/
const FORM: KeyForm = {
  key: 'message',
  time: 'seenAtMs',
  accepts: (value): value is string => typeof value === 'string' && DIGEST.test(value),
  lines: 'messages',
  contents: 'messages seen before',
}

/**
 * Which messages were let in already, so that none is a second time. A message is known by the SHA-256 of its key, so
 * an entry has one size whatever a sender puts into an id. Nothing is forgotten before its time: a memory that is full
 * refuses what is new. Sweeping is spread over the calls.
 */
export class ReplayMemory {
  readonly #options: ReplayMemoryOptions
  readonly #maxEntries: number
  readonly #seen: RememberedKeys

  /** @throws Error when there is a file that cannot be read: to go on would let replays in */
  constructor(options: ReplayMemoryOptions) {
    const { lifetimeMs, clock, store, sharing } = options
    this.#options = options
    this.#maxEntries = options.maxEntries ?? DEFAULT_MAX_ENTRIES
    this.#seen = new RememberedKeys({
      lifetimeMs,
      clock,
      store: store && { ...store, form: FORM, reserve: false },
      sharing,
    })
  }

  /** Messages in memory. */
  get size(): number {
    return this.#seen.size
  }

  /**
   * Takes a message: undefined the first time, and then it is remembered before this returns, so that of any number of
   * simultaneous copies one passes, whatever threads they come to. To be called when the message is known to be genuine, before anything is done with
   * it. There is no way to give a message back: whoever failed to deliver it sends another. Never throws.
   *
   * @param key unique over everything that this memory is for; parts joined by a character that none can hold
   */
  take(key: string): ReplayFault | undefined {
    const digest = hash('sha256', key, 'base64url')
    const { sharing } = this.#options
    sharing?.enter()
    try {
      return this.#takeDigest(digest)
    } finally {
      sharing?.leave()
    }
  }

  /** Whether the file takes messages. */
  get isWritable(): boolean {
    return this.#seen.isWritable
  }

  /** Once a second, and at the end: sees to the file. Among several threads within a step. */
  tend(): void {
    this.#seen.tend()
  }

  /** Another thread has let in the message of that digest; `written`: it is in the file. */
  apply(digest: string, atMs: number, written: boolean): void {
    this.#seen.apply(digest, atMs, written)
  }

  /** The digest of every message with the time when it was let in, oldest first. */
  entries(): Iterable<readonly [digest: string, atMs: number]> {
    return this.#seen.entries()
  }

  #takeDigest(digest: string): ReplayFault | undefined {
    const sinceMs = this.#seen.since(digest)
    if (sinceMs !== undefined && this.#options.clock() < sinceMs + this.#options.lifetimeMs) return 'replayed'
    if (this.#seen.size >= this.#maxEntries) this.#seen.sweep()
    if (this.#seen.size >= this.#maxEntries) return 'full'
    return this.#seen.addIfWritten(digest) ? undefined : 'unwritable'
  }
}
