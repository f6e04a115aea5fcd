import { addAbortListener } from 'node:events'
import type { Pool } from 'undici'

const TIMEOUT_MS = 10_000
const MAX_RESPONSE_BYTES = 64 * 1024

export interface Receiver {
  readonly url: string
  /** PEM of authorities for its certificate. Default: the authorities that Node knows. */
  readonly ca?: string | undefined
  /** PEM of the gateway's certificate for this receiver, and of its key. */
  readonly cert?: string | undefined
  readonly key?: string | undefined
  /** How many requests may run at a time; others wait. Default: 1. */
  readonly connections?: number
  /** Time limit from the beginning of a request to the last byte of its response. Default: 10 s. */
  readonly timeoutMs?: number
  /** Default: 64 KiB. */
  readonly maxResponseBytes?: number
}

interface OutgoingRequest {
  readonly method: 'GET' | 'POST'
  readonly headers: Readonly<Record<string, string>>
  readonly body?: Buffer
  readonly signal?: AbortSignal
}

export interface IncomingResponse {
  readonly statusCode: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Buffer
}

/** Does not follow redirects. @throws SendFault */
export type Send = (request: OutgoingRequest) => Promise<IncomingResponse>

export class SendFault extends Error {
  /** Status of the response, if one began. */
  readonly statusCode: number | undefined

  constructor(message: string, statusCode: number | undefined) {
    super(message)
    this.statusCode = statusCode
  }
}

/** Sends the gateway's own requests to one receiver. Its connections do not keep the process alive. */
export function createSender(receiver: Receiver): Send {
  const { url, ca, cert, key, connections = 1 } = receiver
  const { timeoutMs = TIMEOUT_MS, maxResponseBytes = MAX_RESPONSE_BYTES } = receiver
  const { origin, pathname, search } = new URL(url)
  let pool: Pool | undefined
  return async ({ method, headers, body, signal }) => {
    const timeout = AbortSignal.timeout(timeoutMs)
    const given = signal === undefined ? timeout : AbortSignal.any([signal, timeout])
    const ended = Promise.withResolvers<never>()
    let statusCode: number | undefined
    try {
      // Only two parts of undici are loaded, at the first request, to save memory and time.
      const { default: Pool } = await import('undici/lib/dispatcher/pool.js')
      const { default: request } = await import('undici/lib/api/api-request.js')
      pool ??= new Pool(origin, {
        allowH2: false,
        connect: {
          timeout: timeoutMs,
          // NODE_TLS_REJECT_UNAUTHORIZED=0 must have no effect.
          rejectUnauthorized: true,
          ...(ca !== undefined && { ca }),
          ...(cert !== undefined && key !== undefined && { cert, key }),
        },
        headersTimeout: 0,
        bodyTimeout: 0,
        maxResponseSize: maxResponseBytes,
        connections,
      })
      // undici looks at the signal only once the connection is open.
      addAbortListener(given, () => ended.reject(given.reason))
      const requested = request.call(pool, {
        path: pathname + search,
        method,
        headers,
        body: body ?? null,
        signal: given,
      })
      const response = await Promise.race([requested, ended.promise])
      statusCode = response.statusCode
      return { statusCode, headers: response.headers, body: Buffer.from(await response.body.arrayBuffer()) }
    } catch (error) {
      throw new SendFault(faultOf(error as NodeJS.ErrnoException, statusCode), statusCode)
    }
  }

  function faultOf({ name, message, code }: NodeJS.ErrnoException, statusCode: number | undefined): string {
    const response = `the response with status ${statusCode}`
    if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE')
      return `${response} is longer than ${maxResponseBytes} bytes`
    if (name === 'TimeoutError')
      return statusCode === undefined ? 'no response in time' : `${response} did not end in time`
    // When every address of a host refuses, Node throws an AggregateError with a code but no message.
    const cause = message || String(code)
    return statusCode === undefined ? cause : `${response} broke off: ${cause}`
  }
}
