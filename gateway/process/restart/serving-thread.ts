import type { Commit } from '../../audit/commit/commit.ts'
import type { LastGoodKeys } from '../../auth/keys/jwks.ts'
import type { ListeningSocket, NamedSocket, PassedConnection } from './sockets.ts'

/** What a thread whose requests end gives to the process that goes on. */
export interface Heir {
  /** @param sent called when the connection is on its way, or never will be */
  pass(connection: PassedConnection, sent: () => void): void
  /** Has it write audit records. */
  record(lines: readonly string[]): Commit
}

/**
 * A thread that serves requests, as `HandOver` sees it: the only one of its process, or a worker. `suspend`, then `goOn` or
 * `leave`.
 */
export interface ServingThread {
  /** That it accepts connections on. */
  sockets(): NamedSocket[]
  /**
   * Accepts nothing more and begins no request. Resolves when those that have begun are counted, to its last good signing keys.
   * Its connections and what clients send wait.
   *
   * @throws Error when it cannot; the caller then calls `goOn`
   */
  suspend(): Promise<readonly LastGoodKeys[]>
  /** Serves again. @param sockets copies of its own, in their order */
  goOn(sockets: readonly ListeningSocket[]): void
  /**
   * Gives its connections away and ends what is under way, for at most `timeouts.drainMs` or until `late`. Resolves when nothing
   * is left.
   */
  leave(heir: Heir, late: Promise<unknown>): Promise<void>
}
