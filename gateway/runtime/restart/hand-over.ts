import type { Logger } from 'pino'
import type { Trail } from '../../audit/trail.ts'
import type { Revocations } from '../../auth/revocations.ts'
import type { TicketKeys } from '../../tls/listener/ticket-keys.ts'
import type { IdempotencyKeys } from '../gateway-state.ts'
import type { ConnectionHandOver } from './connection-hand-over.ts'
import { MEMORIES, type Memories, type PassedState, type ToSuccessor } from './messages.ts'
import type { NamedSocket, PassedSocket } from './sockets.ts'
import type { Successor } from './successor.ts'

const RETRY_MS = 1000
/** A new process that has not heard the last message after this time counts as hanging. */
const HEARD_MS = 5000
const LAST_MESSAGE_MS = 2000

export interface StateFiles {
  /** Completes the files and gives them up. @returns the state that is in no file @throws Error when counts would be lost */
  suspend(): PassedState
  /** @throws Error when another process has the files */
  resume(): void
}

export interface HandOverParts {
  readonly log: Logger
  readonly trail: Trail
  readonly connections: Pick<ConnectionHandOver, 'sockets' | 'suspend' | 'goOn' | 'leave'>
  readonly files: StateFiles
  /** With these keys, clients resume their TLS sessions at the other process. */
  readonly tickets: Pick<TicketKeys, 'dayKey'>
  readonly revocations: Pick<Revocations, 'otherProcess' | 'apply'>
  /** The clock of `revocations`. */
  readonly clock: () => number
  readonly memories: Memories
  readonly keys: Pick<IdempotencyKeys, 'table'>
  readonly obstacle: () => string | undefined
  readonly unwatch: () => void
  readonly close: () => void
}

/**
 * Call `sockets`, `suspend`, then `goOn` or `leave`. `suspend` stops the connections, then the files, then the audit trail.
 * `goOn` resumes the files, then the trail, then the connections.
 */
export class HandOver {
  readonly #parts: HandOverParts
  #areFilesSuspended = false
  /** Sessions that have ended, and messages accepted, since the files were given up. */
  readonly #untold: ToSuccessor[] = []
  #tell = (message: ToSuccessor): void => void this.#untold.push(message)

  constructor(parts: HandOverParts) {
    this.#parts = parts
  }

  get obstacle(): string | undefined {
    return this.#parts.obstacle()
  }

  sockets(): NamedSocket[] {
    return this.#parts.connections.sockets()
  }

  /** @throws Error when a file fails; call `goOn` then */
  async suspend(): Promise<PassedState> {
    const { connections, files, tickets, trail, revocations, memories } = this.#parts
    await connections.suspend()
    // Before `files.suspend`, because the other process may miss what is written from now on.
    revocations.otherProcess = (sid) => this.#tell({ type: 'revoked', sid })
    for (const memory of MEMORIES)
      memories[memory].otherProcess = (digest) => this.#tell({ type: 'accepted', memory, digest })
    memories.guards.deliveries.otherProcess = (delivery, isTaken) =>
      this.#tell({ type: 'delivered', delivery, isTaken })
    this.#areFilesSuspended = true
    const passed = files.suspend()
    const error = await trail.suspend('restart')
    if (error !== undefined) throw error
    return { ...passed, tickets: tickets.dayKey(Date.now()) }
  }

  /** @param copies of the sockets, which do not listen yet, in the order of `sockets()` */
  goOn(copies: readonly PassedSocket[]): void {
    const { connections, files, trail, revocations, memories, log } = this.#parts
    const reopen = () => {
      try {
        files.resume()
      } catch (error) {
        log.error({ cause: (error as Error).message }, 'limits cannot be counted yet')
        setTimeout(reopen, RETRY_MS)
      }
    }
    revocations.otherProcess = undefined
    for (const memory of MEMORIES) memories[memory].otherProcess = undefined
    memories.guards.deliveries.otherProcess = undefined
    this.#untold.length = 0
    if (this.#areFilesSuspended) reopen()
    this.#areFilesSuspended = false
    trail.goOn()
    connections.goOn(copies)
  }

  /** Gives the connections away, and waits for requests in flight. */
  async leave(successor: Successor, hurry: Promise<unknown>): Promise<void> {
    const { connections, trail, revocations, clock, keys, unwatch, close } = this.#parts
    unwatch()
    trail.leaveTo((lines) => successor.record(lines))
    keys.table?.leaveTo((key, run) => successor.finishKey(key).whenDone(run))
    successor.onRevoked = (sid) => revocations.apply(sid, clock(), true)
    let isTold = Promise.resolve()
    this.#tell = (message) => {
      isTold = successor.tell(message)
    }
    for (const message of this.#untold.splice(0)) this.#tell(message)
    await connections.leave(successor, Promise.race([hurry, successor.hurry]))
    close()
    // Messages arrive in order: when the last one was heard, all were.
    await this.#heard(isTold, hurry)
  }

  /** Waits until the new process knows the ended sessions and accepted messages, and refuses them. A stop ends the wait. */
  async #heard(isTold: Promise<void>, hurry: Promise<unknown>): Promise<void> {
    const { log } = this.#parts
    const cause = 'the new process hangs'
    const wait = setTimeout(() => {
      log.error(
        { cause },
        'this process waits until the new one has heard which sessions have ended and which messages were accepted',
      )
    }, HEARD_MS)
    const heard = isTold.then(() => true)
    const stopped = hurry.then(
      () => new Promise<false>((resolve) => setTimeout(resolve, LAST_MESSAGE_MS, false)),
    )
    const isHeard = await Promise.race([heard, stopped])
    clearTimeout(wait)
    if (!isHeard)
      log.error(
        { cause },
        'the new process may not have heard which sessions have ended and which messages were accepted',
      )
  }
}
