import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as connectSecurely } from 'node:tls'

/** How often the load checks readiness, like a load balancer. */
const PROBE_MS = 100
/** Pauses between requests. Each client keeps to one of them, in turn. */
const THINK_MS = [0, 1, 5, 20, 100, 400] as const
const HEAD_END = '\r\n\r\n'

export interface DrainCounts {
  good: number
  /** Connections that did not open. */
  unconnected: number
  /** Connections that ended before a response. */
  broken: number
  /** Responses other than 200. */
  refused: number
}

interface DrainTarget {
  readonly port: number
  readonly adminPort: number
  /** A request without Connection field and empty line. */
  readonly request: string
  /** The TLS listener's authority, in PEM. */
  readonly ca?: string | undefined
}

/**
 * A load as behind a load balancer: some clients keep their connections, others open one per request. Once the gateway
 * is not ready, nobody opens another connection, and each client ends with its last.
 */
export class DrainLoad {
  readonly counts: DrainCounts = { good: 0, unconnected: 0, broken: 0, refused: 0 }
  longestPauseMs = 0
  readonly #target: DrainTarget
  #respondedMs = performance.now()
  #ready = true
  /** Tells clients to ask no more. */
  #isOver = false

  constructor(target: DrainTarget) {
    this.#target = target
  }

  /** Runs until the gateway is not ready, or `until` resolves. Resolves when every client has ended. */
  async run(
    clients: { readonly keeping: number; readonly opening: number },
    until?: Promise<void>,
  ): Promise<void> {
    const all = [until?.finally(() => this.#stop()) ?? this.#probe()]
    for (let i = 0; i < clients.keeping; i++) all.push(this.#keep(thinkOf(i)))
    for (let i = 0; i < clients.opening; i++) all.push(this.#openEach(thinkOf(i)))
    await Promise.all(all)
  }

  #stop(): void {
    this.#ready = false
    this.#isOver = true
  }

  async #probe(): Promise<void> {
    while (this.#ready) {
      await sleep(PROBE_MS)
      const probe = await fetch(`http://127.0.0.1:${this.#target.adminPort}/readyz`).catch(() => undefined)
      await probe?.text().catch(() => undefined)
      this.#ready = probe?.status === 200
    }
  }

  async #keep(thinkMs: number): Promise<void> {
    while (this.#ready) {
      const socket = await this.#connect()
      while (socket !== undefined && !this.#isOver && !socket.destroyed && !socket.readableEnded) {
        if (!(await this.#ask(socket, ''))) break
        await sleep(thinkMs)
      }
      socket?.destroy()
    }
  }

  async #openEach(thinkMs: number): Promise<void> {
    while (this.#ready) {
      const socket = await this.#connect()
      if (socket !== undefined) await this.#ask(socket, 'Connection: close\r\n')
      socket?.destroy()
      await sleep(thinkMs)
    }
  }

  async #connect(): Promise<Socket | undefined> {
    const { port, ca } = this.#target
    const place = { port, host: '127.0.0.1', noDelay: true }
    const socket =
      ca === undefined ? connect(place) : connectSecurely({ ...place, ca, servername: 'localhost' })
    try {
      await once(socket, ca === undefined ? 'connect' : 'secureConnect')
    } catch {
      this.counts.unconnected += 1
      // The caller tries again.
      await sleep(10)
      return undefined
    }
    socket.on('error', () => {})
    socket.setEncoding('latin1')
    return socket
  }

  /** Returns whether the connection can be used again. */
  async #ask(socket: Socket, connectionField: string): Promise<boolean> {
    socket.write(`${this.#target.request}${connectionField}\r\n`, 'latin1')
    const response = await responseOn(socket)
    const nowMs = performance.now()
    this.longestPauseMs = Math.max(this.longestPauseMs, nowMs - this.#respondedMs)
    this.#respondedMs = nowMs
    if (response === '') this.counts.broken += 1
    else if (response.startsWith('HTTP/1.1 200')) this.counts.good += 1
    else this.counts.refused += 1
    return response !== '' && !/\r\nconnection: close\r\n/i.test(response)
  }
}

function thinkOf(client: number): number {
  return THINK_MS[client % THINK_MS.length] as number
}

/** The next complete response; empty when the connection ends before. */
function responseOn(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    let text = ''
    const end = (response: string) => {
      socket.off('data', take).off('end', broken).off('close', broken)
      resolve(response)
    }
    const broken = () => end('')
    const take = (piece: string) => {
      text += piece
      if (isWhole(text)) end(text)
    }
    socket.on('data', take).on('end', broken).on('close', broken)
  })
}

function isWhole(text: string): boolean {
  const head = text.indexOf(HEAD_END)
  const length = /\r\ncontent-length: (\d+)\r\n/i.exec(text)?.[1]
  return head >= 0 && text.length >= head + HEAD_END.length + Number(length ?? 0)
}
