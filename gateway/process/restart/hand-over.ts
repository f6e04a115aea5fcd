import type { Socket } from 'node:net'
import type { InForce } from '../../gateway.ts'
import type { ParkedConnection } from '../../http/server/http-server.ts'
import { interrupt } from '../../pipeline.ts'
import { refusal } from '../../refusals.ts'
import type { PublicListeners } from '../public-listeners.ts'
import type { SharedState } from '../shared-state.ts'
import type { PassedState } from './messages.ts'
import { type ListenerName, type PassedSocket, socketOf, takeConnection } from './sockets.ts'
import type { Successor } from './successor.ts'

/** How long requests that have begun may take to be counted, while all others wait. */
const DECIDE_MS = 1000
const LOOK_EVERY_MS = 2
/** How long new TLS clients wait so that those before can have a last response. */
const TLS_MS = 300
/** How often files that another process has taken are tried again. */
const RETRY_MS = 1000
/** Time for the last refusals to be recorded and read by clients. */
const LAST_WORDS_MS = 500

/** The files of the shared state. */
export interface StateFiles {
  /** Completes them and gives them up. @returns the state that is in no file */
  suspend(): PassedState
  /** Takes them back. @throws Error when another process has them */
  resume(): void
}

/** A gateway in one thread that can be handed over to another process. */
export interface HandOverParts {
  readonly inForce: InForce
  readonly state: SharedState
  readonly open: PublicListeners
  readonly files: StateFiles
  /** Stops watching the configuration files. */
  readonly unwatch: () => void
}

/**
 * Hands a gateway over to another process, in steps: `suspend`, then `goOn` or `leave`. While it is suspended nothing is
 * accepted, no request begins, and the files belong to nobody.
 */
export class HandOver {
  readonly #parts: HandOverParts
  #parked: ParkedConnection[] = []
  /** On their way to the other process, if that has not ended. */
  readonly #passing = new Set<Socket>()
  #take = (connection: ParkedConnection): void => {
    if (!closedIfTls(connection.socket)) this.#parked.push(connection)
  }

  constructor(parts: HandOverParts) {
    this.#parts = parts
  }

  /** Why it cannot be handed over now; undefined when it can. */
  get obstacle(): string | undefined {
    const { inForce, state } = this.#parts
    if (!inForce.gateway.trail.recheck()) return 'the audit trail cannot be written'
    if (!state.limiter.isWritable) return 'limits cannot be written'
    return state.revocations.isSafe ? undefined : 'the end of a session cannot be written'
  }

  /** The sockets that listen, by name. */
  sockets(): [name: ListenerName, socket: PassedSocket][] {
    const [http, https] = this.#parts.open.listeners.map(({ server }) => socketOf(server))
    const sockets: [ListenerName, PassedSocket][] = []
    if (http !== undefined) sockets.push(['http', http])
    if (https !== undefined) sockets.push(['https', https])
    return sockets
  }

  /**
   * Stops accepting and beginning requests, waits until those under way are counted, and closes the files. Connections and
   * what clients send wait meanwhile.
   *
   * @returns the state that is in no file
   * @throws Error when the files cannot be completed; the caller then calls `goOn`
   */
  async suspend(): Promise<PassedState> {
    const { inForce, open, files } = this.#parts
    const { gateway } = inForce
    // The sockets stay open: the copies of the other process, and those to go back to.
    const [http, https] = open.listeners
    https?.server.close()
    if (https !== undefined) await this.#letTlsClientsGo()
    http?.server.close()
    open.connections.park((connection) => this.#take(connection))
    await this.#decided()
    const passed = files.suspend()
    const error = await gateway.trail.suspend('restart')
    if (error !== undefined) throw error
    return passed
  }

  /** Serves again, after `suspend`. @param sockets copies that do not listen yet, in the order of `sockets()` */
  goOn(sockets: readonly PassedSocket[]): void {
    const { inForce, open, files } = this.#parts
    const { gateway } = inForce
    const reopen = () => {
      try {
        files.resume()
      } catch (error) {
        gateway.log.error({ cause: (error as Error).message }, 'limits cannot be counted yet')
        setTimeout(reopen, RETRY_MS)
      }
    }
    reopen()
    gateway.trail.goOn()
    gateway.load.phase = 'serving'
    open.connections.unpark()
    for (const [at, { server }] of open.listeners.entries()) server.listen(sockets[at])
    for (const { goOn } of this.#parked.splice(0)) goOn()
  }

  /**
   * After `suspend`: the other process serves, so connections go there, and the requests that are in flight here end. Those
   * that have not by `timeouts.drainMs` are broken off. Resolves when nothing is left.
   */
  async leave(successor: Successor, hurry: Promise<unknown>): Promise<void> {
    const { inForce, state, open, unwatch } = this.#parts
    const { trail, settings, load, upstreams } = inForce.gateway
    unwatch()
    trail.leaveTo((lines) => successor.record(lines))
    successor.onRevoked = (sid) => state.revocations.apply(sid, Date.now(), true)
    state.revocations.otherProcess = (sid) => successor.send({ type: 'revoked', sid })
    this.#take = ({ socket }) => this.#pass(socket, successor)
    for (const connection of this.#parked.splice(0)) this.#take(connection)
    const late = () => this.#breakOff()
    successor.onHurry = late
    const deadline = setTimeout(late, settings.timeouts.drainMs)
    void hurry.then(late)
    await open.connections.emptied()
    clearTimeout(deadline)
    load.phase = 'over'
    await upstreams.close()
    state.member?.close()
  }

  #breakOff(): void {
    const { inForce, open } = this.#parts
    const { gateway } = inForce
    const { load, log } = gateway
    load.phase = 'over'
    log.warn({ inFlight: load.inFlight.size, tunnels: load.tunnels.size }, 'the drain deadline has come')
    load.inFlight.visitAll((exchange) => interrupt(gateway, exchange, refusal('draining')))
    load.tunnels.endAll('draining')
    setTimeout(() => {
      open.connections.closeAll()
      for (const socket of this.#passing) socket.destroy()
    }, LAST_WORDS_MS)
  }

  /** TLS connections cannot be given away. For a while each ends with its next response, so that few are left. */
  async #letTlsClientsGo(): Promise<void> {
    this.#parts.inForce.gateway.load.phase = 'draining'
    await new Promise((resolve) => setTimeout(resolve, TLS_MS))
    // After the sockets have been read in this turn of the loop: one with a request waiting is not idle.
    await new Promise((resolve) => setImmediate(resolve))
  }

  /** Gives a connection away when its client has taken the last response. */
  #pass(socket: Socket, successor: Successor): void {
    if (closedIfTls(socket)) return
    if (socket.writableLength > 0) {
      socket.write('', () => this.#pass(socket, successor))
      return
    }
    const taken = takeConnection(socket)
    if (taken === undefined) return
    this.#passing.add(socket)
    socket.once('close', () => this.#passing.delete(socket))
    const unread = taken.unread?.toString('base64')
    successor.send({ type: 'connection', unread }, taken.handle, () => socket.destroy())
  }

  /** Resolves when every request that has begun has been counted or refused; those that take too long will be refused. */
  async #decided(): Promise<void> {
    const { inFlight } = this.#parts.inForce.gateway.load
    const untilMs = performance.now() + DECIDE_MS
    for (;;) {
      let undecided = 0
      inFlight.visitAll(({ forwarding, refusalCode }) => {
        if (forwarding === undefined && refusalCode === undefined) undecided++
      })
      if (undecided === 0 || performance.now() >= untilMs) return
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS))
    }
  }
}

/** Closes a TLS connection between two requests. @returns false for any other */
function closedIfTls(socket: Socket): boolean {
  if (!('encrypted' in socket)) return false
  socket.destroySoon()
  return true
}
