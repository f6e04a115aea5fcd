import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { ReceiverSettings } from '../config/tracing-settings.ts'
import { createSender, type IncomingResponse, type SendFault } from '../outgoing/sender.ts'

export type Posted =
  | {
      readonly delivered: true
      /** Spans not taken. */
      readonly rejected: number
      readonly reason: string
    }
  | {
      readonly delivered: false
      readonly mayRetry: boolean
      /** The wait that the receiver asks for. */
      readonly retryAfterMs: number | undefined
      readonly cause: string
    }

export type Post = (body: Buffer, signal: AbortSignal) => Promise<Posted>

const RETRYABLE: ReadonlySet<number> = new Set([429, 502, 503, 504])
const MAX_REASON_CHARS = 200
const MAX_RETRY_AFTER_MS = 60_000
const zip = promisify(gzip)

/** Posts OTLP/JSON over one kept connection. */
export function createPost({ endpoint, headers, ca, compression, timeoutMs }: ReceiverSettings): Post {
  const zipped = compression === 'gzip'
  const fields = {
    ...Object.fromEntries(headers),
    'content-type': 'application/json',
    ...(zipped && { 'content-encoding': 'gzip' }),
  }
  const send = createSender({ url: endpoint, ca, timeoutMs })
  return async (body, signal) => {
    try {
      const request = { method: 'POST', headers: fields, signal } as const
      return outcomeOf(await send({ ...request, body: zipped ? await zip(body) : body }))
    } catch (error) {
      const { message, statusCode } = error as SendFault
      // A response that breaks off after its status counts by this status.
      if (statusCode !== undefined) return outcomeOf({ statusCode, headers: {}, body: Buffer.alloc(0) })
      return { delivered: false, mayRetry: true, retryAfterMs: undefined, cause: message }
    }
  }
}

function outcomeOf({ statusCode, headers, body }: IncomingResponse): Posted {
  if (statusCode >= 200 && statusCode < 300) return delivered(body.toString())
  return {
    delivered: false,
    mayRetry: RETRYABLE.has(statusCode),
    retryAfterMs: retryAfterMs(String(headers['retry-after'] ?? '')),
    cause: `the receiver responds with status ${statusCode}`,
  }
}

/** The result of a 2xx. An unreadable text counts as full success, so that no batch is sent twice. */
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

/** Reads Retry-After (RFC 9110 section 10.2.3): seconds, or a date. */
export function retryAfterMs(value: string, nowMs = Date.now()): number | undefined {
  const ms = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - nowMs
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), MAX_RETRY_AFTER_MS)
}
