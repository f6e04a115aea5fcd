import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { ParkedConnection } from '../../edge/http1/connections.ts'
import { areRequestsWaiting } from '../../edge/http2/arrivals.ts'
import { breakOff, endOrphans, LAST_REFUSALS_MS, MAX_SPANS_MS } from '../drain.ts'
import type { GatewayInForce } from '../gateway-in-force.ts'
import type { PublicListeners } from '../public-listeners.ts'
import {
  type ClearOrigin,
  type ListeningSocket,
  type NamedSocket,
  originOf,
  takeConnection,
} from './sockets.ts'
import type { Successor } from './successor.ts'

const DECIDE_MS = 1000
const LOOK_EVERY_MS = 2
type Unpassed = Omit<ParkedConnection, 'goOn'>
type SuccessorChannel = Pick<Successor, 'pass'>

export class ConnectionHandOver {
  readonly #inForce: GatewayInForce
  readonly #open: PublicListeners
  #parked: ParkedConnection[] = []
  /** Sockets on their way to the other process, and idle ones with TLS. What is left at the end is closed. */
  readonly #waiting = new Set<Socket>()
  /** Sockets whose bytes are relayed to the other process, which ends the relay. */
  readonly #relayed = new Set<Socket>()
  #take = (connection: ParkedConnection): void => void this.#parked.push(connection)

  constructor(inForce: GatewayInForce, open: PublicListeners) {
    this.#inForce = inForce
    this.#open = open
  }

  sockets(): NamedSocket[] {
    return this.#open.sockets()
  }

  /** Begins no more connections and requests. Resolves when requests under way have been counted. */
  async suspend(): Promise<void> {
    // Both processes have copies, which keep the sockets open.
    this.#open.stopAccepting()
    this.#open.connections.park((connection) => this.#take(connection))
    await this.#decided()
  }

  /** @param sockets copies of the listening sockets, in the order of `sockets()` */
  goOn(sockets: readonly ListeningSocket[]): void {
    this.#open.connections.unpark()
    this.#open.acceptAgain(sockets)
    for (const { goOn } of this.#parked.splice(0)) goOn()
  }

  /** Gives the connections away. Requests that have not ended after `timeouts.drainMs`, or at `late`, are broken off. */
  async leave(successor: SuccessorChannel, late: Promise<unknown>): Promise<void> {
    const { settings, load, upstreams, tracer } = this.#inForce.gateway
    this.#inForce.stopKeys()
    this.#take = ({ socket, unread }) => {
      if (socket.destroyed) return
      this.#waiting.add(socket)
      socket.once('close', () => this.#waiting.delete(socket))
      if ('encrypted' in socket) this.#relayNext(socket as TLSSocket, successor, unread)
      else this.#pass({ socket, unread }, successor)
    }
    for (const connection of this.#parked.splice(0)) this.#take(connection)
    const breakOffRest = () => this.#breakOffRest()
    const deadline = setTimeout(breakOffRest, settings.timeouts.drainMs)
    const orphansEnd = setTimeout(endOrphans, settings.timeouts.drainMs, load)
    void late.then(breakOffRest)
    await this.#open.connections.emptied()
    clearTimeout(deadline)
    load.phase = 'over'
    await upstreams.close()
    clearTimeout(orphansEnd)
    // The other process sends its own spans.
    await tracer?.close(
      MAX_SPANS_MS,
      late.then(() => {}),
    )
  }

  /** Waits until the client has taken the last response. */
  #pass(connection: Unpassed, successor: SuccessorChannel, clear?: ClearOrigin): void {
    const { socket, unread } = connection
    if (socket.destroyed || socket.writableEnded) return
    if (socket.writableLength > 0) {
      socket.write('', () => this.#pass(connection, successor, clear))
      return
    }
    const taken = takeConnection(socket, clear, unread)
    if (taken !== undefined) successor.pass(taken, () => socket.destroy())
  }

  /** Sends the next request of a TLS connection to the other process, which responds `Connection: close`. */
  #relayNext(socket: TLSSocket, successor: SuccessorChannel, unread: Buffer | undefined): void {
    const next = () => {
      const hasMore = unread !== undefined || socket.readableLength > 0
      if (!hasMore || socket.writableEnded) socket.destroySoon()
      else void this.#relay(socket, successor, unread)
    }
    if (socket.readableEnded) next()
    else socket.once('readable', next)
  }

  async #relay(socket: TLSSocket, successor: SuccessorChannel, unread: Buffer | undefined): Promise<void> {
    this.#waiting.delete(socket)
    this.#relayed.add(socket)
    socket.once('close', () => this.#relayed.delete(socket))
    const clear = originOf(socket)
    try {
      this.#pass({ socket: await relay(socket, unread), unread: undefined }, successor, clear)
    } catch {
      socket.destroy()
    }
  }

  #breakOffRest(): void {
    breakOff(this.#inForce)
    setTimeout(() => {
      this.#open.connections.closeAll()
      for (const socket of this.#waiting) socket.destroySoon()
      // A TLS handshake that ends later gives one more connection.
      this.#take = ({ socket }) => socket.destroy()
    }, LAST_REFUSALS_MS)
    // Clients that read nothing would keep these sockets open for ever.
    setTimeout(() => {
      for (const socket of this.#waiting) socket.destroy()
    }, 2 * LAST_REFUSALS_MS)
    // A request that was relayed just now gets the whole `drainMs`.
    setTimeout(() => {
      for (const socket of this.#relayed) socket.destroy()
    }, this.#inForce.gateway.settings.timeouts.drainMs)
  }

  /** Resolves when each request has been counted or refused, or after DECIDE_MS. */
  async #decided(): Promise<void> {
    const { inFlight } = this.#inForce.gateway.load
    const untilMs = performance.now() + DECIDE_MS
    for (;;) {
      let undecided = Number(areRequestsWaiting())
      inFlight.visitAll(({ forwarding, refusalCode }) => {
        if (forwarding === undefined && refusalCode === undefined) undecided++
      })
      if (undecided === 0 || performance.now() >= untilMs) return
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS))
    }
  }
}

/** A local connection, which Node can pass to another process, unlike one with TLS. Nobody reads the far end yet. */
async function connectedPair(): Promise<readonly [near: Socket, far: Socket]> {
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { readonly port: number }
  const near = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  near.on('error', () => {})
  const found = Promise.withResolvers<Socket>()
  near.once('close', () => found.reject(new Error('it was closed')))
  server.on('connection', async (far) => {
    far.on('error', () => {})
    if (near.connecting) await once(near, 'connect').catch(() => {})
    // Any program of this machine may connect too. From another loopback address, it may have the same port.
    const isNear = far.remotePort === near.localPort && far.remoteAddress === near.localAddress
    if (isNear) found.resolve(far)
    else far.destroy()
  })
  try {
    return [near, await found.promise]
  } finally {
    server.close()
  }
}

/** @returns the far end of a relay, which another process can take */
export async function relay(socket: Socket, unread?: Buffer): Promise<Socket> {
  const [near, far] = await connectedPair()
  near.setNoDelay(true)
  socket.once('close', () => near.destroy())
  near.once('close', () => socket.destroySoon())
  if (socket.destroyed) near.destroy()
  if (unread !== undefined) near.write(unread)
  socket.pipe(near)
  near.pipe(socket)
  return far
}
