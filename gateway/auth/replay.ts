import { hash } from 'node:crypto'
import { isOverShare } from '../edge/rules/fair-share.ts'
import { RememberedKeys } from '../storage/expiring-keys.ts'
import type { KeyForm } from '../storage/key-files.ts'
import { SenderTally, withSender } from './sender-tally.ts'

interface ReplayMemoryOptions {
  /** How long a message is remembered: at least as long as it could still be accepted. */
  readonly lifetimeMs: number
  /** Messages remembered at once, about 180 bytes each; more are refused. Default 500,000. */
  readonly maxEntries?: number
  /** Epoch milliseconds. */
  readonly clock: () => number
  /** By which the freshness of messages is judged; default: `clock`. */
  readonly wallClock?: (() => number) | undefined
  /** Undefined: in memory only, lost at a restart. */
  readonly store?: ReplayStore | undefined
}

interface ReplayStore {
  /** Created when missing. */
  readonly dataDir: string
  /** The files are `<name>.ndjson` and `<name>.old.ndjson`. */
  readonly name: string
  /** Reports a problem with the file; known messages stay refused while the process lives. */
  readonly onFault: (cause: string) => void
  /** Reports that the files were deleted while the gateway ran, and are created again. */
  readonly onRemoved?: ((cause: string) => void) | undefined
}

/**
 * Why a message must be refused. `replayed`: it was accepted before. `full`: the memory is full. `crowded`: it is nearly, and the
 * sender has more than its share of it. `unwritable`: it could not be written to the file, so a crash would forget it; the sender
 * may send it again. `away`: the shared store, which must be asked, does not respond.
 */
export type ReplayFault = 'replayed' | 'full' | 'crowded' | 'unwritable' | 'away'

/** Remembers messages so that none is accepted twice: a `ReplayMemory`, or what several gateways share. */
export interface ReplayGuard {
  /** See ReplayMemory.take. A promise when the shared store is asked; it never rejects. */
  take(key: string, sender: string): ReplayFault | undefined | Promise<ReplayFault | undefined>
  maintain(): void
}

/** Remembers messages once the service has taken them: see ReplayMemory.lookUp and keep. */
export interface DeliveryGuard {
  lookUp(key: string, sender: string): ReplayFault | undefined | Promise<ReplayFault | undefined>
  keep(key: string, sender: string): void
  maintain(): void
}

const DEFAULT_MAX_ENTRIES = 500_000
/** The part of the memory that nobody is refused for having: a count may be that of some senders together. */
const FEW = 1 / 1000
const DIGEST = /^[A-Za-z0-9_-]{43}$/
const FORM: KeyForm = {
  key: 'message',
  time: 'seenAtMs',
  accepts: (value): value is string => typeof value === 'string' && DIGEST.test(value),
  lines: 'messages',
  contents: 'messages seen before',
}

/** What a message is remembered by: see ReplayMemory.take. */
export function digestOf(key: string, sender: string): string {
  return withSender(hash('sha256', key, 'base64url'), sender)
}

/**
 * Remembers accepted messages, so that none is accepted twice. It stores the SHA-256 of a message's key, so the length of
 * an id does not matter. Nothing is dropped early: when the memory is full, new messages are refused, and before that those of
 * senders who have more than their share (`isOverShare`). So a flood of one sender leaves room for the others.
 */
export class ReplayMemory {
  readonly #maxEntries: number
  readonly #senders = new SenderTally()
  readonly #seen: RememberedKeys

  /** @throws Error for a file that cannot be read, because replays would be accepted without it */
  constructor(options: ReplayMemoryOptions) {
    const { lifetimeMs, clock, wallClock, store } = options
    this.#maxEntries = options.maxEntries ?? DEFAULT_MAX_ENTRIES
    this.#seen = new RememberedKeys({
      lifetimeMs,
      clock,
      wallClock,
      store: store && { ...store, form: FORM, reserve: false },
      tally: this.#senders,
    })
  }

  get size(): number {
    return this.#seen.size
  }

  /**
   * Takes a message: undefined the first time. It is then remembered before this returns, so that of any number of
   * simultaneous copies one passes. Call it when the message is known to be genuine, and
   * before anything is done with it. A message cannot be given back: who failed to deliver it sends another. Never throws.
   *
   * @param key unique over everything that this memory is for; parts joined by a character that none can hold
   * @param sender who has a share of the memory
   */
  take(key: string, sender: string): ReplayFault | undefined {
    // Earlier versions remembered messages by this one.
    const former = hash('sha256', key, 'base64url')
    const digest = withSender(former, sender)
    const sinceMs = this.#seen.since(digest) ?? this.#seen.since(former)
    if (sinceMs !== undefined && !this.#seen.isOver(sinceMs)) return 'replayed'
    const fault = this.#lackOfRoom(digest)
    if (fault !== undefined) return fault
    return this.#seen.addIfWritten(digest) ? undefined : 'unwritable'
  }

  /** Why a message that is not taken yet must be refused; undefined: it was not taken before, and there is room for it. Never throws. */
  lookUp(key: string, sender: string): ReplayFault | undefined {
    const digest = digestOf(key, sender)
    const sinceMs = this.#seen.since(digest)
    if (sinceMs !== undefined && !this.#seen.isOver(sinceMs)) return 'replayed'
    return this.#lackOfRoom(digest) ?? (this.#seen.isWritable ? undefined : 'unwritable')
  }

  /** Remembers a message that the service has taken, in memory also where the file cannot be written. Never throws. */
  keep(key: string, sender: string): void {
    this.#seen.add(digestOf(key, sender))
  }

  get isWritable(): boolean {
    return this.#seen.isWritable
  }

  /** Maintains the file; to be called once a second and at the end. */
  maintain(): void {
    this.#seen.maintain()
  }

  /** The process before, or another gateway, accepted the message with this digest. @param written whether it is in the file */
  apply(digest: string, atMs: number, written: boolean): void {
    this.#seen.apply(digest, atMs, written)
  }

  /** The digest of every message with the time it was accepted, oldest first. */
  entries(): Iterable<readonly [digest: string, atMs: number]> {
    return this.#seen.entries()
  }

  #lackOfRoom(digest: string): ReplayFault | undefined {
    if (!this.#isFull && !this.#isCrowdedBy(digest)) return undefined
    // What has expired and is still counted is nobody's.
    const isSwept = this.#seen.sweep()
    if (this.#isFull) return 'full'
    return isSwept && this.#isCrowdedBy(digest) ? 'crowded' : undefined
  }

  get #isFull(): boolean {
    return this.#seen.size >= this.#maxEntries
  }

  #isCrowdedBy(digest: string): boolean {
    const max = this.#maxEntries
    const own = this.#senders.countOf(digest)
    return own > max * FEW && isOverShare({ own, free: max - this.#seen.size, max })
  }
}
