import type { IssuerSettings } from '../config/settings.ts'
import { RememberedKeys } from '../storage/expiring-keys.ts'
import type { KeyForm } from '../storage/key-files.ts'
import { quote } from './tokens/quote.ts'
import { isQualifiedId } from './visible-id.ts'

export interface SessionGroup {
  has(sid: string): boolean
  publish(sid: string): void
  rememberFor(lifetimeMs: number): void
  /** False while ended sessions may be missing and `onStoreFailure` does not allow that. */
  readonly isKnown: boolean
}

interface RevocationsOptions {
  readonly dataDir: string
  readonly clock: () => number
  /** The clock by which tokens expire; default: `clock`. */
  readonly wallClock?: (() => number) | undefined
  readonly lifetimeMs?: number | undefined
  /** Called when the files fail. Revoked sessions stay revoked in memory. */
  readonly onFault: (cause: string) => void
  readonly onRemoved?: ((cause: string) => void) | undefined
  /** Undefined: this gateway is the only one. */
  readonly group?: SessionGroup | undefined
}

const MINUTE_MS = 60_000
export const REVOCATION_LIFETIME_MS = (24 * 60 + 1) * MINUTE_MS

/** How long a token of these issuers can be accepted, even when clocks differ. */
export function revocationLifetimeMs(
  issuers: readonly Pick<IssuerSettings, 'tokens' | 'clockToleranceMs'>[],
): number {
  const each = issuers.map(
    ({ tokens, clockToleranceMs }) => tokens.maxLifetimeMs + Math.max(MINUTE_MS, 2 * clockToleranceMs),
  )
  return Math.max(...each)
}

const FORM: KeyForm = {
  key: 'sid',
  time: 'revokedAtMs',
  accepts: isQualifiedId,
  lines: 'revocations',
  contents: 'revoked sessions',
}

export class Revocations extends RememberedKeys {
  readonly #onFault: (cause: string) => void
  readonly #group: SessionGroup | undefined

  /** @throws Error for a file that cannot be read, because revoked sessions would be accepted without it */
  constructor(options: RevocationsOptions) {
    const { dataDir, clock, wallClock, onFault, onRemoved, group } = options
    const { lifetimeMs = REVOCATION_LIFETIME_MS } = options
    const store = { dataDir, name: 'revocations', form: FORM, reserve: true, onFault, onRemoved }
    super({ lifetimeMs, clock, wallClock, store })
    this.#onFault = onFault
    this.#group = group
    group?.rememberFor(lifetimeMs)
  }

  rememberFor(lifetimeMs: number): void {
    this.lifetimeMs = lifetimeMs
    this.#group?.rememberFor(lifetimeMs)
  }

  isRevoked(sid: string | undefined): boolean {
    if (sid === undefined) return false
    return this.since(sid) !== undefined || this.#group?.has(sid) === true
  }

  get isKnown(): boolean {
    return this.#group?.isKnown !== false
  }

  /**
   * Ends a session, and writes that to disk before it returns. Never throws.
   * @returns false when the disk failed, so that a crash would undo the end; `maintain` tries again
   */
  revoke(sid: string): boolean {
    if (!isQualifiedId(sid)) {
      this.#onFault(`a session cannot be revoked: ${quote(sid)} is no session id`)
      return true
    }
    this.#group?.publish(sid)
    return this.add(sid)
  }
}
