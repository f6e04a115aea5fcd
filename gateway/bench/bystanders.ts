import { Agent, type RequestOptions, request } from 'node:http'
import { request as requestSecurely, Agent as SecureAgent } from 'node:https'

export interface BystanderRequest {
  readonly port: number
  readonly secure: boolean
  readonly make: () => {
    readonly method: string
    readonly path: string
    readonly headers: Readonly<Record<string, string>>
    readonly body: string
  }
}

export interface Outcomes {
  sent: number
  /** Requests without a 200 within {@link RESPONSE_MS}. */
  failed: number
  longestMs: number
  /** Waits of ended requests, failed or not. */
  readonly waitsMs: number[]
}

const RESPONSE_MS = 8_000
const EVERY_MS = 50
const ADDRESSES = 20

/** Well-behaved clients: one request every 50 ms, on a new connection from one of 20 addresses. */
export class Bystanders {
  readonly outcomes: Outcomes = { sent: 0, failed: 0, longestMs: 0, waitsMs: [] }
  readonly #request: BystanderRequest
  readonly #timer: NodeJS.Timeout
  readonly #open = new Set<Promise<void>>()

  constructor(request: BystanderRequest) {
    this.#request = request
    this.#timer = setInterval(() => {
      const one = this.#send().finally(() => this.#open.delete(one))
      this.#open.add(one)
    }, EVERY_MS)
  }

  /** Sends no more; resolves when every request has ended. */
  async end(): Promise<Outcomes> {
    clearInterval(this.#timer)
    await Promise.all(this.#open)
    return this.outcomes
  }

  async #send(): Promise<void> {
    const { outcomes } = this
    const localAddress = `127.0.1.${1 + (outcomes.sent++ % ADDRESSES)}`
    const startMs = performance.now()
    const status = await statusOf(this.#request, localAddress)
    const waitMs = performance.now() - startMs
    outcomes.waitsMs.push(waitMs)
    outcomes.longestMs = Math.max(outcomes.longestMs, waitMs)
    if (status !== 200) outcomes.failed++
  }
}

/** The response's status; 0 if none came. */
function statusOf({ port, secure, make }: BystanderRequest, localAddress: string): Promise<number> {
  const { body, ...rest } = make()
  const agent = secure ? new SecureAgent({ maxCachedSessions: 0 }) : new Agent()
  const options: RequestOptions & { rejectUnauthorized: boolean } = {
    ...rest,
    host: '127.0.0.1',
    port,
    localAddress,
    agent,
    rejectUnauthorized: false,
    signal: AbortSignal.timeout(RESPONSE_MS),
  }
  return new Promise((resolve) => {
    const sent = (secure ? requestSecurely : request)(options, (res) => {
      res.on('error', () => resolve(0)).on('end', () => resolve(res.statusCode ?? 0))
      res.resume()
    })
    sent.on('error', () => resolve(0))
    sent.on('close', () => agent.destroy())
    sent.end(body)
  })
}
