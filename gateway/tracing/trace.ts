import { withoutNominated } from '../edge/rules/hop-by-hop.ts'
import { Field } from '../edge/syntax/field.ts'
import { randomHex } from '../edge/syntax/random-hex.ts'
import { isTraceparent, receivedTraceparent, traceIdIn } from '../edge/syntax/traceparent.ts'

const PARENT_ID_AT = 36
const FLAGS_AT = 53
export const SAMPLED = 1
/** Trace Context level 2: an id's maker sets this flag when the id's low 56 bits are random, and others pass it on. */
const RANDOM = 2

/** One attempt to send the request upstream. Its times are of the steady clock. */
export interface Attempt {
  readonly spanId: string
  readonly upstream: string
  readonly startMs: number
  endMs: number | undefined
  status: number | undefined
  /** Why it failed, as an `error.type`. */
  error: string | undefined
}

interface RemoteParent {
  readonly traceparent: string
  readonly tracestates: readonly Field[]
}

/** What the spans of a sampled request need besides its exchange. */
export class Trace {
  readonly traceId: string
  readonly spanId: string
  /** Undefined for a trace's first span. */
  readonly parentId: string | undefined
  /** W3C flags: sampled, and random if the caller said so or the trace id is ours. */
  readonly flags: number
  readonly tracestates: readonly Field[]
  readonly attempts: Attempt[] = []
  readonly #steadyClock: () => number
  #nextSpanId: string
  #fields: Field[] = []
  #at = 0

  /** @param origin a new trace's id, or the traceparent of a caller's trace */
  constructor(steadyClock: () => number, origin: { readonly traceId: string } | RemoteParent) {
    this.#steadyClock = steadyClock
    this.spanId = newSpanId()
    this.#nextSpanId = newSpanId()
    if ('traceId' in origin) {
      this.traceId = origin.traceId
      this.parentId = undefined
      this.tracestates = []
      this.flags = SAMPLED | RANDOM
    } else {
      const { traceparent, tracestates } = origin
      this.traceId = traceIdIn(traceparent)
      this.parentId = traceparent.slice(PARENT_ID_AT, FLAGS_AT - 1)
      this.tracestates = tracestates
      this.flags = SAMPLED | (flagsIn(traceparent) & RANDOM)
    }
  }

  /** Adds the fields that carry the trace upstream. The traceparent names the next attempt's span. */
  addTo(fields: Field[]): void {
    this.#fields = fields
    this.#at = fields.length
    fields.push(this.#traceparent(), ...this.tracestates)
  }

  /** @returns true when the fields of this attempt differ from those of the last */
  began(upstream: string): boolean {
    const isResent = this.attempts.length > 0
    if (isResent) {
      this.#nextSpanId = newSpanId()
      this.#fields[this.#at] = this.#traceparent()
    }
    const startMs = this.#steadyClock()
    this.attempts.push({
      spanId: this.#nextSpanId,
      upstream,
      startMs,
      endMs: undefined,
      status: undefined,
      error: undefined,
    })
    return isResent
  }

  /** Ends the attempt under way, if any, as failed. */
  failed(error: string, status?: number): void {
    const attempt = this.attempts.at(-1)
    if (attempt === undefined || attempt.endMs !== undefined) return
    attempt.endMs = this.#steadyClock()
    attempt.error = error
    attempt.status ??= status
  }

  responded(status: number): void {
    const attempt = this.attempts.at(-1)
    if (attempt !== undefined) attempt.status = status
  }

  #traceparent(): Field {
    return new Field('traceparent', `00-${this.traceId}-${this.#nextSpanId}-0${this.flags}`)
  }
}

export function newTraceId(): string {
  return randomHex(32)
}

/** An invalid id, of zeros alone, has a chance of 2^-64. */
function newSpanId(): string {
  return randomHex(16)
}

export function flagsIn(traceparent: string): number {
  return Number.parseInt(traceparent.slice(FLAGS_AT, FLAGS_AT + 2), 16)
}

interface InTrace {
  readonly req: { readonly fields: readonly Field[] }
  /** Undefined unless sampled. */
  readonly trace: { readonly traceId: string } | undefined
  /** The `traceparent` sent upstream. */
  readonly traceparent: string | undefined
}

/** The trace id for audit records, from the spans, else from the caller. Without either, `forward` makes one later. */
export function recordedTraceId(trace: InTrace['trace'], received: string | undefined): string | undefined {
  if (trace !== undefined) return trace.traceId
  return received !== undefined && isTraceparent(received) ? traceIdIn(received) : undefined
}

/** The trace id for a log line, from the spans, else from what was sent upstream, else from the caller. */
export function traceIdOf({ trace, traceparent, req }: InTrace): string | undefined {
  if (trace !== undefined) return trace.traceId
  const named = traceparent ?? receivedTraceparent(withoutNominated(req.fields))
  return named === undefined ? undefined : traceIdIn(named)
}
