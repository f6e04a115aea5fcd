import type { Field } from './field.ts'
import { randomHex } from './random-hex.ts'

/** W3C Trace Context: version 00, or a later one, which may be longer. An id of zeros is invalid. */
const TRACEPARENT =
  /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:$|(?<!^00.{53})-)/

/** Makes the header of a new trace that is not sampled (W3C Trace Context section 3.2). */
export function newTraceparent(): string {
  return `00-${randomHex(32)}-${randomHex(16)}-00`
}

export function isTraceparent(value: string): boolean {
  return TRACEPARENT.test(value)
}

/** @param traceparent a valid one */
export function traceIdIn(traceparent: string): string {
  return traceparent.slice(3, 35)
}

/** Undefined when there is none, more than one, or an invalid one. */
export function receivedTraceparent(fields: readonly Field[]): string | undefined {
  const [found, another] = fields.filter(({ lower }) => lower === 'traceparent')
  return found !== undefined && another === undefined && isTraceparent(found.value) ? found.value : undefined
}
