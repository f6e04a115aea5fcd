import { Agent, type RequestOptions, request } from 'node:http'
import { request as requestSecurely, Agent as SecureAgent } from 'node:https'

/** How a bystander asks. */
export interface Asking {
  readonly port: number
  readonly secure: boolean
  /** Made for each request. */
  readonly make: () => {
    readonly method: string
    readonly path: string
    readonly headers: Readonly<Record<string, string>>
    readonly body: string
  }
}

/** What became of all that they asked. */
export interface Fared {
  asked: number
  /** Not answered 200 within {@link PATIENCE_MS}. */
  failed: number
  longestMs: number
}

export const PATIENCE_MS = 8_000
const EVERY_MS = 50
const ADDRESSES = 20

/** Well-behaved clients: one request each 50 ms, on a connection of its own, from one of 20 addresses. */
export class Bystanders {
  readonly fared: Fared = { asked: 0, failed: 0, longestMs: 0 }
  readonly #asking: Asking
  readonly #timer: NodeJS.Timeout
  readonly #open = new Set<Promise<void>>()

  constructor(asking: Asking) {
    this.#asking = asking
    this.#timer = setInterval(() => {
      const one = this.#ask().finally(() => this.#open.delete(one))
      this.#open.add(one)
    }, EVERY_MS)
  }

  /** Resolves when everything that was asked has come to something. */
  async end(): Promise<Fared> {
    clearInterval(this.#timer)
    await Promise.all(this.#open)
    return this.fared
  }

  async #ask(): Promise<void> {
    const { fared } = this
    const localAddress = `127.0.1.${1 + (fared.asked++ % ADDRESSES)}`
    const startMs = performance.now()
    const status = await statusOf(this.#asking, localAddress)
    fared.longestMs = Math.max(fared.longestMs, performance.now() - startMs)
    if (status !== 200) fared.failed++
  }
}

/** 0: no answer. */
function statusOf({ port, secure, make }: Asking, localAddress: string): Promise<number> {
  const { body, ...rest } = make()
  const agent = secure ? new SecureAgent({ maxCachedSessions: 0 }) : new Agent()
  const options: RequestOptions & { rejectUnauthorized: boolean } = {
    ...rest,
    host: '127.0.0.1',
    port,
    localAddress,
    agent,
    rejectUnauthorized: false,
    signal: AbortSignal.timeout(PATIENCE_MS),
  }
  return new Promise((resolve) => {
    const asked = (secure ? requestSecurely : request)(options, (res) => {
      res.on('error', () => resolve(0)).on('end', () => resolve(res.statusCode ?? 0))
      res.resume()
    })
    asked.on('error', () => resolve(0))
    asked.on('close', () => agent.destroy())
    asked.end(body)
  })
}
