import type { Field } from '../syntax/field.ts'
import { receivedTraceparent, traceIdIn } from '../syntax/traceparent.ts'

/** What an exchange knows of its trace. */
interface InTrace {
  readonly req: { readonly fields: readonly Field[] }
  /** Undefined unless it is sampled. */
  readonly trace: { readonly traceId: string } | undefined
  /** What was sent upstream. */
  readonly traceparent: string | undefined
}

/** The trace id for a log line: that of its spans, else what the service was told, else what the caller said. */
export function traceIdOf({ trace, traceparent, req }: InTrace): string | undefined {
  if (trace !== undefined) return trace.traceId
  const named = traceparent ?? receivedTraceparent(req.fields)
  return named === undefined ? undefined : traceIdIn(named)
}
