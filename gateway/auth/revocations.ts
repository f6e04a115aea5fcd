import { type KeySharing, RememberedKeys } from '../storage/expiring-keys.ts'
import type { KeyForm } from '../storage/expiring-keys-file.ts'
import { quote } from './tokens/quote.ts'
import { isQualifiedId } from './visible-id.ts'

export interface RevocationsOptions {
  /** Made when it is not there. */
  readonly dataDir: string
  /** Epoch milliseconds. */
  readonly clock: () => number
  /** Told of anything wrong with the file; what was revoked stays revoked in memory. */
  readonly onFault: (cause: string) => void
  /** Told when the file was removed under the gateway, and is begun anew. */
  readonly onRemoved?: ((cause: string) => void) | undefined
  /** Undefined: this thread is the only one. */
  readonly sharing?: KeySharing | undefined
}

/** No token lives longer than 24 h; the minute covers an issuer whose clock runs ahead. */
const REMEMBERED_MS = (24 * 60 + 1) * 60_000
const FORM: KeyForm = {
  key: 'sid',
  time: 'revokedAtMs',
  accepts: isQualifiedId,
  lines: 'revocations',
  contents: 'revoked sessions',
}

/**
 * Sessions that ended before their tokens did. Each is remembered for as long as one of its tokens can live, in memory
 * and in `<dataDir>/revocations.ndjson`, so that neither a restart nor `kill -9` gives it back. After a day the file
 * becomes `revocations.old.ndjson` in place of the one before, so the disk holds two days of them at most.
 */
export class Revocations {
  readonly #onFault: (cause: string) => void
  readonly #sessions: RememberedKeys
  readonly #sharing: KeySharing | undefined

  /** @throws Error when there is a file that cannot be read: to go on would let revoked sessions in again */
  constructor({ dataDir, clock, onFault, onRemoved, sharing }: RevocationsOptions) {
    this.#onFault = onFault
    this.#sharing = sharing
    const store = { dataDir, name: 'revocations', form: FORM, reserve: true, onFault, onRemoved }
    this.#sessions = new RememberedKeys({ lifetimeMs: REMEMBERED_MS, clock, store, sharing })
  }

  /** Sessions remembered. */
  get size(): number {
    return this.#sessions.size
  }

  /** Whether the session has ended. No session, no revocation. */
  isRevoked(sid: string | undefined): boolean {
    this.#sharing?.catchUp()
    return sid !== undefined && this.#sessions.since(sid) !== undefined
  }

  /** Whether neither a restart nor a crash would give a session back. */
  get isSafe(): boolean {
    return this.#sessions.isSafe
  }

  /** Whether the file takes revocations; otherwise the reserve does, as far as it goes. */
  get isWritable(): boolean {
    return this.#sessions.isWritable
  }

  /**
   * Ends a session: from now on in memory, on every thread, and on the disk by the time this returns. An id that no token
   * can carry is reported and otherwise ignored. Never throws.
   *
   * @returns false when a crash would give the session back; it is written as soon as that can be done (`tend`)
   */
  revoke(sid: string): boolean {
    if (!isQualifiedId(sid)) {
      this.#onFault(`a session cannot be revoked: ${quote(sid)} is no session id`)
      return true
    }
    this.#sharing?.enter()
    try {
      return this.#sessions.add(sid)
    } finally {
      this.#sharing?.leave()
    }
  }

  /** Once a second, and at the end: tries again what could not be written. Among several threads within a step. */
  tend(): void {
    this.#sessions.tend()
  }

  /** Another thread has ended a session; `written`: it is in the file. */
  apply(sid: string, atMs: number, written: boolean): void {
    this.#sessions.apply(sid, atMs, written)
  }

  /** Every session with the time when it was revoked, oldest first. */
  entries(): Iterable<readonly [sid: string, atMs: number]> {
    return this.#sessions.entries()
  }
}
