import type { Logger } from 'pino'
import type { Trail } from '../../audit/trail.ts'
import type { LastGoodKeys } from '../../auth/keys/jwks.ts'
import type { TicketKeys } from '../../tls/listener/ticket-keys.ts'
import type { PassedState } from './messages.ts'
import type { ServingThread } from './serving-thread.ts'
import type { NamedSocket, PassedSocket } from './sockets.ts'
import type { Successor } from './successor.ts'

/** How often files that another process has taken are tried again. */
const RETRY_MS = 1000
/** A new process that has not heard the last message by then is said to hang. */
const HEARD_MS = 5000
/** What a stop still leaves for that. */
const LAST_WORDS_MS = 2000

/** The files of the shared state. */
export interface StateFiles {
  /** Completes them and gives them up. @returns the state that is in no file */
  suspend(keys: readonly LastGoodKeys[]): Promise<PassedState>
  /** Takes them back. @throws Error when another process has them */
  resume(): void
}

/** What two processes tell each other about sessions while both have requests. */
export interface SessionNews {
  /** Called for each session that ends here. */
  tell(other: ((sid: string) => void) | undefined): void
  /** A session has ended there. @param isWritten false: this process has the files, and it may be in none, or only in a reserve */
  hear(sid: string, isWritten: boolean): void
}

export interface HandOverParts {
  readonly log: Logger
  readonly trail: Trail
  /** Those that serve now. */
  readonly threads: () => readonly ServingThread[]
  readonly files: StateFiles
  /** Of this process: clients resume their sessions with the other one. */
  readonly tickets: Pick<TicketKeys, 'dayKey'>
  readonly sessions: SessionNews
  /** Why it cannot be handed over now; undefined when it can. */
  readonly obstacle: () => string | undefined
  /** Called when it begins, and when this process has all back. */
  readonly begin?: () => void
  readonly back?: () => void
  /** Stops watching the configuration files. */
  readonly unwatch: () => void
  /** Closes what is left at the end. */
  readonly close: () => void
}

/**
 * Hands a gateway over to another process, in steps: `sockets`, `suspend`, then `goOn` or `leave`. While it is suspended
 * nothing is accepted, no request begins, and the files belong to nobody. With one thread or with workers: first the threads
 * stop, then the files are closed, and last the audit trail; `goOn` takes all back in the opposite order.
 */
export class HandOver {
  readonly #parts: HandOverParts
  #threads: readonly { readonly thread: ServingThread; readonly sockets: readonly NamedSocket[] }[] = []
  #areThreadsSuspended = false
  #areFilesSuspended = false
  /** Sessions that have ended since the files were given up. */
  readonly #ended: string[] = []

  constructor(parts: HandOverParts) {
    this.#parts = parts
  }

  /** Why it cannot be handed over now; undefined when it can. */
  get obstacle(): string | undefined {
    return this.#parts.obstacle()
  }

  /** The sockets that listen; the threads that have them are those that are handed over. */
  sockets(): NamedSocket[] {
    this.#threads = this.#parts.threads().map((thread) => ({ thread, sockets: thread.sockets() }))
    return this.#threads.flatMap(({ sockets }) => sockets)
  }

  /**
   * Stops accepting and beginning requests, waits until those under way are counted, and closes the files. Connections and
   * what clients send wait meanwhile.
   *
   * @returns the state that is in no file
   * @throws Error when a thread or the files cannot be completed; the caller then calls `goOn`
   */
  async suspend(): Promise<PassedState> {
    const { files, tickets, trail, sessions, begin, threads, obstacle } = this.#parts
    begin?.()
    const present = new Set(threads())
    const isSame =
      present.size === this.#threads.length && this.#threads.every(({ thread }) => present.has(thread))
    const why = isSame ? obstacle() : 'a worker has been replaced meanwhile'
    if (why !== undefined) throw new Error(why)
    this.#areThreadsSuspended = true
    // All, so that none is still about to when `goOn` is called.
    const suspended = await Promise.allSettled(this.#threads.map(({ thread }) => thread.suspend()))
    const failed = suspended.find(({ status }) => status === 'rejected')
    if (failed !== undefined) throw (failed as PromiseRejectedResult).reason
    const keys = suspended.flatMap((each) => (each.status === 'fulfilled' ? each.value : []))
    // Before the other process reads the files: it may miss what is written from now on.
    sessions.tell((sid) => this.#ended.push(sid))
    this.#areFilesSuspended = true
    const passed = await files.suspend(keys)
    const error = await trail.suspend('restart')
    if (error !== undefined) throw error
    return { ...passed, tickets: tickets.dayKey(Date.now()) }
  }

  /** Serves again, after `suspend`. @param copies of the sockets, which do not listen yet, in the order of `sockets()` */
  goOn(copies: readonly PassedSocket[]): void {
    const { files, trail, sessions, log, back } = this.#parts
    const reopen = () => {
      try {
        files.resume()
      } catch (error) {
        log.error({ cause: (error as Error).message }, 'limits cannot be counted yet')
        setTimeout(reopen, RETRY_MS)
      }
    }
    sessions.tell(undefined)
    this.#ended.length = 0
    if (this.#areFilesSuspended) reopen()
    this.#areFilesSuspended = false
    trail.goOn()
    // An unused copy would go on listening when its thread has ended, and nobody would accept from it.
    if (!this.#areThreadsSuspended) for (const copy of copies) copy.close()
    let at = 0
    for (const { thread, sockets } of this.#areThreadsSuspended ? this.#threads : []) {
      thread.goOn(copies.slice(at, at + sockets.length))
      at += sockets.length
    }
    this.#areThreadsSuspended = false
    back?.()
  }

  /**
   * After `suspend`: the other process serves, so connections go there, and the requests that are in flight here end. Those
   * that have not by `timeouts.drainMs` are broken off. Resolves when nothing is left.
   */
  async leave(successor: Successor, hurry: Promise<unknown>): Promise<void> {
    const { trail, sessions, unwatch, close } = this.#parts
    unwatch()
    trail.leaveTo((lines) => successor.record(lines))
    successor.onRevoked = (sid) => sessions.hear(sid, true)
    let isTold = Promise.resolve()
    const tell = (sid: string) => {
      isTold = successor.revoked(sid)
    }
    for (const sid of this.#ended.splice(0)) tell(sid)
    sessions.tell(tell)
    const late = Promise.race([hurry, successor.hurry])
    await Promise.all(this.#threads.map(({ thread }) => thread.leave(successor, late)))
    close()
    // Messages go in their order: with the last one all are on their way.
    await this.#heard(isTold, hurry)
  }

  /** A session must not come back because the new process hangs for a while, so only a stop of this one ends the wait. */
  async #heard(isTold: Promise<void>, hurry: Promise<unknown>): Promise<void> {
    const { log } = this.#parts
    const cause = 'the new process hangs'
    const wait = setTimeout(() => {
      log.error({ cause }, 'this process waits until the new one has heard which sessions have ended')
    }, HEARD_MS)
    const stop = Promise.withResolvers<void>()
    let isOver = false
    void hurry.then(() => {
      if (!isOver) setTimeout(stop.resolve, LAST_WORDS_MS)
    })
    await Promise.race([
      isTold.then(() => {
        isOver = true
      }),
      stop.promise,
    ])
    clearTimeout(wait)
    if (!isOver) log.error({ cause }, 'the new process may not have heard which sessions have ended')
    isOver = true
  }
}
