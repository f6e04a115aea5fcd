import { withoutNominated } from '../edge/rules/hop-by-hop.ts'
import type { Field } from '../edge/syntax/field.ts'
import { isTraceparent, receivedTraceparent, traceIdIn } from '../edge/syntax/traceparent.ts'

/** What an exchange knows of its trace. */
interface InTrace {
  readonly req: { readonly fields: readonly Field[] }
  /** Undefined unless it is sampled. */
  readonly trace: { readonly traceId: string } | undefined
  /** What was sent upstream. */
  readonly traceparent: string | undefined
}

/**
 * The trace id for the audit records, which are begun before the service is told one: that of the spans, else what the caller
 * said. A trace that begins with the message to the service, and that no span is made for, has none here.
 */
export function recordedTraceId(trace: InTrace['trace'], received: string | undefined): string | undefined {
  if (trace !== undefined) return trace.traceId
  return received !== undefined && isTraceparent(received) ? traceIdIn(received) : undefined
}

/** The trace id for a log line: that of its spans, else what the service was told, else what the caller said. */
export function traceIdOf({ trace, traceparent, req }: InTrace): string | undefined {
  if (trace !== undefined) return trace.traceId
  const named = traceparent ?? receivedTraceparent(withoutNominated(req.fields))
  return named === undefined ? undefined : traceIdIn(named)
}
