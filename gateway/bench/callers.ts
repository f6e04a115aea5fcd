import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { ResponseReader } from './response-reader.ts'
import { RESPONSE_BYTES } from './upstream-responses.ts'

/** Fewer than a listener's backlog. */
const CONNECTED_AT_ONCE = 100

/** Connections that stay open, with one request at a time on each. Every response must be the upstream's. */
export class Callers {
  readonly #sockets: readonly Socket[]

  private constructor(sockets: readonly Socket[]) {
    this.#sockets = sockets
  }

  static async connect(port: number, count: number): Promise<Callers> {
    const sockets: Socket[] = []
    while (sockets.length < count) {
      const wave = Math.min(CONNECTED_AT_ONCE, count - sockets.length)
      const begun = Array.from({ length: wave }, () => connect({ host: '127.0.0.1', port, noDelay: true }))
      await Promise.all(begun.map((socket) => once(socket, 'connect')))
      sockets.push(...begun)
    }
    return new Callers(sockets)
  }

  get open(): number {
    return this.#sockets.filter((socket) => socket.readyState === 'open').length
  }

  /** Spreads requests over all connections. */
  async askAll(count: number, requestOf: (index: number) => string): Promise<void> {
    let next = 0
    const work = async (socket: Socket) => {
      while (next < count) await ask(socket, requestOf(next++))
    }
    await Promise.all(this.#sockets.map(work))
  }

  /** Sends one request on each connection, on `atOnce` at a time. */
  async askEach(request: string, atOnce: number): Promise<void> {
    let next = 0
    const work = async () => {
      for (let socket = this.#sockets[next++]; socket !== undefined; socket = this.#sockets[next++]) {
        await ask(socket, request)
      }
    }
    await Promise.all(Array.from({ length: atOnce }, work))
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy()
  }
}

/** Rejects when the response is incomplete or not the expected one. */
function ask(socket: Socket, request: string): Promise<void> {
  const reader = new ResponseReader(RESPONSE_BYTES)
  return new Promise((resolve, reject) => {
    const settle = (error?: Error) => {
      socket.off('data', read).off('error', settle).off('close', gone)
      if (error === undefined) resolve()
      else reject(error)
    }
    const gone = () => settle(new Error('the gateway closed a connection'))
    const read = (bytes: Buffer) => {
      try {
        if (reader.take(bytes)) settle()
      } catch (error) {
        settle(error as Error)
      }
    }
    socket.on('data', read).on('error', settle).on('close', gone)
    socket.write(request, 'latin1')
  })
}
