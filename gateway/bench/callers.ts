import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { AnswerReader } from './answer-reader.ts'
import { ANSWER_BYTES } from './upstream-answers.ts'

/** How many connections are begun at the same time: fewer than a listener's backlog. */
const CONNECTED_AT_ONCE = 100

/** Connections that are kept, each asking one request at a time. Every answer must be the upstream's. */
export class Callers {
  readonly #sockets: readonly Socket[]

  private constructor(sockets: readonly Socket[]) {
    this.#sockets = sockets
  }

  /** Rejects when one of them cannot be made. */
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

  /** How many the other side has not closed. */
  get open(): number {
    return this.#sockets.filter((socket) => socket.readyState === 'open').length
  }

  /** Asks so many requests, on all connections at the same time. */
  async askAll(count: number, requestOf: (index: number) => string): Promise<void> {
    let next = 0
    const work = async (socket: Socket) => {
      while (next < count) await ask(socket, requestOf(next++))
    }
    await Promise.all(this.#sockets.map(work))
  }

  /** Asks one request on each connection, on so many at the same time. */
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

/** Rejects when the answer is another one, or the connection ends before it is whole. */
function ask(socket: Socket, request: string): Promise<void> {
  const reader = new AnswerReader(ANSWER_BYTES)
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
