import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { Agent } from 'undici'
import type { ReceiverSettings } from '../../config/tracing-settings.ts'

/** What became of a batch (OTLP specification, "OTLP/HTTP Response"). */
export type Posted =
  | {
      readonly delivered: true /** Spans that the receiver did not take, and why. */
      readonly rejected: number
      readonly reason: string
    }
  | {
      readonly delivered: false
      readonly mayRetry: boolean
      /** When the receiver says how long to wait. */
      readonly retryAfterMs: number | undefined
      readonly cause: string
    }

/** Sends a batch. Never rejects. */
export type Post = (body: Buffer, signal: AbortSignal) => Promise<Posted>

const RETRYABLE: ReadonlySet<number> = new Set([429, 502, 503, 504])
/** Longer responses are not read: one says in a line what was rejected. */
const MAX_RESPONSE_BYTES = 64 * 1024
const MAX_REASON_CHARS = 200
/** A receiver cannot silence the gateway for longer. */
const MAX_RETRY_AFTER_MS = 60_000
const zip = promisify(gzip)

/** Posts OTLP/JSON to one receiver, over one connection that is kept. */
export function createPost({ endpoint, headers, ca, compression, timeoutMs }: ReceiverSettings): Post {
  const zipped = compression === 'gzip'
  const fields = {
    ...Object.fromEntries(headers),
    'content-type': 'application/json',
    ...(zipped && { 'content-encoding': 'gzip' }),
  }
  let agent: Agent | undefined
  return async (body, signal) => {
    try {
      // Loaded late, because loading takes 50 ms.
      const { Agent, request } = await import('undici')
      agent ??= new Agent({ allowH2: false, connections: 1, connect: ca === undefined ? {} : { ca } })
      const response = await request(endpoint, {
        method: 'POST',
        dispatcher: agent,
        headers: fields,
        body: zipped ? await zip(body) : body,
        signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
      })
      const text = await readBounded(response.body)
      const isTaken = response.statusCode >= 200 && response.statusCode < 300
      return isTaken ? delivered(text) : refused(response)
    } catch (error) {
      return { delivered: false, mayRetry: true, retryAfterMs: undefined, cause: causeOf(error) }
    }
  }
}

/** @returns what came; the status alone decides when the rest does not come. */
async function readBounded(body: AsyncIterable<Buffer>): Promise<string> {
  const pieces: Buffer[] = []
  let bytes = 0
  try {
    for await (const piece of body) {
      bytes += piece.length
      if (bytes > MAX_RESPONSE_BYTES) break
      pieces.push(piece)
    }
  } catch {}
  return Buffer.concat(pieces).toString('utf8')
}

/** A receiver that took everything says nothing, and what it says wrongly is not worth sending a batch twice. */
function delivered(text: string): Posted {
  let partial: { rejectedSpans?: unknown; errorMessage?: unknown } | undefined
  try {
    partial = JSON.parse(text)?.partialSuccess
  } catch {}
  const rejected = Number(partial?.rejectedSpans ?? 0)
  return {
    delivered: true,
    rejected: Number.isSafeInteger(rejected) && rejected > 0 ? rejected : 0,
    reason: String(partial?.errorMessage ?? '').slice(0, MAX_REASON_CHARS),
  }
}

interface RefusedResponse {
  readonly statusCode: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
}

function refused({ statusCode, headers }: RefusedResponse): Posted {
  return {
    delivered: false,
    mayRetry: RETRYABLE.has(statusCode),
    retryAfterMs: retryAfterMs(String(headers['retry-after'] ?? '')),
    cause: `the receiver responds with status ${statusCode}`,
  }
}

/** RFC 9110 section 10.2.3: seconds, or a date. */
export function retryAfterMs(value: string, nowMs = Date.now()): number | undefined {
  const ms = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - nowMs
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), MAX_RETRY_AFTER_MS)
}

function causeOf(error: unknown): string {
  const { name, message, code } = error as NodeJS.ErrnoException
  if (name === 'TimeoutError') return 'no response in time'
  return code === undefined ? message : `${code}: ${message}`
}
