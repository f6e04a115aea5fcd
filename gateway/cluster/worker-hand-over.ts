import type { Commit } from '../audit/commit/commit.ts'
import type { GatewayInForce } from '../process/gateway-in-force.ts'
import type { PublicListeners } from '../process/public-listeners.ts'
import type { Heir } from '../process/restart/serving-thread.ts'
import { adoptConnection, type PassedConnection, peerOfSocket } from '../process/restart/sockets.ts'
import { ThreadHandOver } from '../process/restart/thread-hand-over.ts'
import { UnacknowledgedRecords } from '../process/restart/unacknowledged-records.ts'
import type { HandOverCommand, HandOverMessage } from './worker-messages.ts'

/** The other end of `WorkerThread`: hands over this worker, by way of the main thread. */
export class WorkerHandOver implements Heir {
  readonly #inForce: GatewayInForce
  readonly #open: PublicListeners
  readonly #post: (message: HandOverMessage) => void
  readonly #thread: ThreadHandOver
  readonly #records: UnacknowledgedRecords
  /** Called when the connection is on its way. */
  readonly #passing = new Map<number, () => void>()
  #lastId = 0

  constructor(inForce: GatewayInForce, open: PublicListeners, post: (message: HandOverMessage) => void) {
    this.#inForce = inForce
    this.#open = open
    this.#post = post
    this.#thread = new ThreadHandOver(inForce, open)
    this.#records = new UnacknowledgedRecords((id, lines) => {
      post({ type: 'records', id, lines })
      return true
    })
    post({ type: 'listening', sockets: open.sockets().map(([name, { fd }]) => [name, { fd }]) })
  }

  /** @param hurry ends the time of requests that are under way */
  obey(command: HandOverCommand, hurry: Promise<void>): void {
    switch (command.type) {
      case 'suspend':
        void this.#suspend()
        break
      case 'goOn':
        this.#inForce.gateway.trail.goOn()
        this.#thread.goOn(command.sockets)
        break
      case 'leave':
        void this.#leave(hurry)
        break
      case 'passed':
        this.#passing.get(command.id)?.()
        this.#passing.delete(command.id)
        break
      case 'recorded':
        this.#records.acknowledge(command.id, command.fault)
        break
      default: {
        const { connection } = command
        this.#open.connections.accept(adoptConnection(connection), connection.clear !== undefined)
      }
    }
  }

  pass({ socket, unread, clear }: PassedConnection, sent: () => void): void {
    const id = ++this.#lastId
    this.#passing.set(id, sent)
    const connection = { socket: socket.fd, unread, clear }
    this.#post({ type: 'connection', id, connection, peer: peerOfSocket(socket) })
  }

  record(lines: readonly string[]): Commit {
    return this.#records.record(lines)
  }

  async #suspend(): Promise<void> {
    const keys = await this.#thread.suspend()
    const error = await this.#inForce.gateway.trail.suspend('restart')
    this.#post({ type: 'suspended', keys, fault: error?.message })
  }

  async #leave(hurry: Promise<void>): Promise<void> {
    this.#inForce.gateway.trail.leaveTo((lines) => this.record(lines))
    await this.#thread.leave(this, hurry)
    this.#post({ type: 'left' })
  }
}
