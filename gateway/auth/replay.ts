import { hash, randomInt } from 'node:crypto'
import { isOverShare } from '../edge/rules/fair-share.ts'
import { type KeyTally, RememberedKeys } from '../storage/expiring-keys.ts'
import type { KeyForm } from '../storage/key-files.ts'

interface ReplayMemoryOptions {
  /** At least the time for which a message can be accepted. */
  readonly lifetimeMs: number
  /** Further messages are refused. An entry takes about 180 bytes of memory. */
  readonly maxEntries?: number
  readonly clock: () => number
  /** Judges the freshness of messages; default: `clock`. */
  readonly wallClock?: (() => number) | undefined
  /** Undefined: in memory only, lost at a restart. */
  readonly store?: ReplayStore | undefined
}

interface ReplayStore {
  readonly dataDir: string
  /** The files are `<name>.ndjson` and `<name>.old.ndjson`. */
  readonly name: string
  /** Called when the files fail. Known messages stay refused while the process lives. */
  readonly onFault: (cause: string) => void
  /** Called when others have deleted the files: they are created again. */
  readonly onRemoved?: ((cause: string) => void) | undefined
}

/** Why a message is refused. `crowded`: a sender over its share of a nearly full memory. `away`: no store responds. */
export type ReplayFault = 'replayed' | 'full' | 'crowded' | 'unwritable' | 'away'

/** A memory of this gateway, or one that several gateways share. */
export interface ReplayGuard {
  /** A promise when the shared store is asked; it never rejects. */
  take(key: string, sender: string): ReplayFault | undefined | Promise<ReplayFault | undefined>
  maintain(): void
}

export interface DeliveryGuard {
  begin(keys: readonly string[], sender: string): ReplayFault | undefined | Promise<ReplayFault | undefined>
  end(keys: readonly string[], sender: string, isTaken: boolean): void
  maintain(): void
}

const DEFAULT_MAX_ENTRIES = 500_000
/** Part of the memory that each sender may always use, because its count may include messages of others. */
const FEW = 1 / 1000
const DIGEST = /^[A-Za-z0-9_-]{43}$/
const FORM: KeyForm = {
  key: 'message',
  time: 'seenAtMs',
  accepts: (value): value is string => typeof value === 'string' && DIGEST.test(value),
  lines: 'messages',
  contents: 'messages seen before',
}
/** The front of a digest names the sender. */
const SENDER_CHARS = 8
/** A power of two. */
const COUNTS = 65_536
const FNV_PRIME = 0x01000193

/** SHA-256 of the key in base64url. Its first characters are replaced by those of the sender's SHA-256. */
export function digestOf(key: string, sender: string): string {
  const front = hash('sha256', sender, 'base64url').slice(0, SENDER_CHARS)
  return front + hash('sha256', key, 'base64url').slice(SENDER_CHARS)
}

/** Remembers accepted messages by digest. A nearly full memory refuses senders over their share. */
export class ReplayMemory extends RememberedKeys {
  readonly #maxEntries: number
  readonly #senders: SenderCounts
  readonly #hasFormer: boolean

  /** @throws Error for a file that cannot be read, because replays would be accepted without it */
  constructor({ lifetimeMs, maxEntries, clock, wallClock, store }: ReplayMemoryOptions) {
    const tally = new SenderCounts()
    const file = store && { ...store, form: FORM, reserve: false }
    super({ lifetimeMs, clock, wallClock, store: file, tally })
    this.#maxEntries = maxEntries ?? DEFAULT_MAX_ENTRIES
    this.#senders = tally
    this.#hasFormer = store?.name === 'webhooks'
  }

  /** Remembers a message, or says why it is refused. Never throws. @param key unique in this memory */
  take(key: string, sender: string): ReplayFault | undefined {
    const digest = digestOf(key, sender)
    // Earlier versions remembered webhooks by the digest of the key alone.
    const formerMs = this.#hasFormer ? this.since(hash('sha256', key, 'base64url')) : undefined
    if (formerMs !== undefined && !this.isOver(formerMs)) return 'replayed'
    const fault = this.#faultOf(digest)
    if (fault !== undefined) return fault
    return this.addIfWritten(digest) ? undefined : 'unwritable'
  }

  begin(keys: readonly string[], sender: string): ReplayFault | undefined {
    const faults = keys.map((key) => this.#faultOf(digestOf(key, sender)))
    if (faults.includes('replayed')) return 'replayed'
    return faults.find((fault) => fault !== undefined) ?? (this.isWritable ? undefined : 'unwritable')
  }

  /** Remembers a message that was taken, in memory even when the file cannot be written. Never throws. */
  end(keys: readonly string[], sender: string, isTaken: boolean): void {
    if (isTaken) for (const key of keys) this.add(digestOf(key, sender))
  }

  #faultOf(digest: string): ReplayFault | undefined {
    const sinceMs = this.since(digest)
    if (sinceMs !== undefined && !this.isOver(sinceMs)) return 'replayed'
    if (!this.#isFull && !this.#isCrowdedBy(digest)) return undefined
    // Expired messages may still be counted.
    const isSwept = this.sweep()
    if (this.#isFull) return 'full'
    return isSwept && this.#isCrowdedBy(digest) ? 'crowded' : undefined
  }

  get #isFull(): boolean {
    return this.size >= this.#maxEntries
  }

  #isCrowdedBy(digest: string): boolean {
    const max = this.#maxEntries
    const own = this.#senders.countOf(digest)
    return own > max * FEW && isOverShare({ own, free: max - this.size, max })
  }
}

/** Counts messages by sender. Senders may share a count, which saves memory. */
class SenderCounts implements KeyTally {
  readonly #counts = new Uint32Array(COUNTS)
  /** Hides which senders share a count, so that nobody can fill the count of another. */
  readonly #secret = randomInt(2 ** 32)

  countOf(digest: string): number {
    return this.#counts[this.#placeOf(digest)] ?? 0
  }

  added(digest: string): void {
    const place = this.#placeOf(digest)
    this.#counts[place] = (this.#counts[place] ?? 0) + 1
  }

  removed(digest: string): void {
    const place = this.#placeOf(digest)
    this.#counts[place] = (this.#counts[place] ?? 0) - 1
  }

  /** FNV-1a. */
  #placeOf(digest: string): number {
    let place = this.#secret
    for (let at = 0; at < SENDER_CHARS; at++) place = Math.imul(place ^ digest.charCodeAt(at), FNV_PRIME)
    return (place ^ (place >>> 16)) & (COUNTS - 1)
  }
}
