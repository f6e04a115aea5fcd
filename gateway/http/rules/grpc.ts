import { type Field, valueIn } from '../syntax/field.ts'
import type { HttpVersion } from './request-headers.ts'

/** Not `application/grpc-web`, whose trailers are in the body. */
const CONTENT_TYPE = /^application\/grpc(?:\+[^;]*)?[ \t]*(?:;|$)/i
const TIMEOUT = /^(\d{1,8})([HMSmun])$/
const UNIT_MS: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
}

/**
 * What a client of gRPC is told instead of a status of HTTP. As gRPC's http-grpc-status-mapping and Envoy have it, except that
 * a time that ran out is DEADLINE_EXCEEDED and not UNAVAILABLE, and too much is RESOURCE_EXHAUSTED: clients send again at once what
 * was UNAVAILABLE, and the service may have acted.
 */
const CODES: Readonly<Record<number, number>> = {
  400: 13,
  401: 16,
  403: 7,
  404: 12,
  405: 12,
  408: 4,
  409: 10,
  413: 8,
  414: 13,
  429: 8,
  431: 8,
  500: 13,
  502: 14,
  503: 14,
  504: 4,
  508: 13,
}
const UNKNOWN = 2

/** Whether a request is a call of gRPC, which only HTTP/2 carries. */
export function isGrpc({
  version,
  fields,
}: {
  readonly version: HttpVersion
  readonly fields: readonly Field[]
}): boolean {
  return version === '2' && CONTENT_TYPE.test(valueIn(fields, 'content-type') ?? '')
}

/** How long the client of a call waits, milliseconds. Undefined: it does not say, or not as it should. */
export function grpcTimeoutMs(fields: readonly Field[]): number | undefined {
  const [, digits, unit = ''] = TIMEOUT.exec(valueIn(fields, 'grpc-timeout') ?? '') ?? []
  return digits === undefined ? undefined : Number(digits) * (UNIT_MS[unit] as number)
}

/** The fields of a call that the gateway ends. @param message shown to the caller */
export function grpcStatusLines(status: number, message: string): string {
  return `grpc-status: ${CODES[status] ?? UNKNOWN}\r\ngrpc-message: ${percentEncoded(message)}\r\n`
}

/** gRPC over HTTP/2, "Status-Message": what is not printable ASCII, and the percent sign. */
function percentEncoded(text: string): string {
  let encoded = ''
  for (const byte of Buffer.from(text)) {
    const isPlain = byte >= 0x20 && byte <= 0x7e && byte !== 0x25
    encoded += isPlain ? String.fromCharCode(byte) : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  }
  return encoded
}
