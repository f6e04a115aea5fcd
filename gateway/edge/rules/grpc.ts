import { percentOctet } from '../syntax/characters.ts'
import { type Field, valueIn } from '../syntax/field.ts'
import type { HttpVersion } from './request-headers.ts'

/** Does not match `application/grpc-web`, which has its trailers in the body. */
const CONTENT_TYPE = /^application\/grpc(?:\+[^;]*)?[ \t]*(?:;|$)/i
const TIMEOUT = /^(\d{1,8})([HMSmun])$/
const STATUS = /^\d{1,2}$/
const UNIT_MS: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
}

export const GRPC_STATUSES = [
  'OK',
  'CANCELLED',
  'UNKNOWN',
  'INVALID_ARGUMENT',
  'DEADLINE_EXCEEDED',
  'NOT_FOUND',
  'ALREADY_EXISTS',
  'PERMISSION_DENIED',
  'RESOURCE_EXHAUSTED',
  'FAILED_PRECONDITION',
  'ABORTED',
  'OUT_OF_RANGE',
  'UNIMPLEMENTED',
  'INTERNAL',
  'UNAVAILABLE',
  'DATA_LOSS',
  'UNAUTHENTICATED',
] as const
export const CANCELLED = 1
export const UNKNOWN = 2

/** gRPC's http-grpc-status-mapping, for a response without a status of gRPC. */
const OF_HTTP: Readonly<Record<number, number>> = {
  400: 13,
  401: 16,
  403: 7,
  404: 12,
  429: 14,
  502: 14,
  503: 14,
  504: 14,
}
/**
 * The status of gRPC for a refusal. A timeout is DEADLINE_EXCEEDED: after UNAVAILABLE clients would repeat
 * the call at once, although the service may have acted.
 */
const OF_REFUSAL: Readonly<Record<number, number>> = {
  ...OF_HTTP,
  405: 12,
  408: 4,
  409: 10,
  413: 8,
  414: 13,
  429: 8,
  431: 8,
  500: 13,
  504: 4,
  508: 13,
}
/**
 * The status of HTTP for each google.rpc.Code, as in Envoy. Two differ, because the caller may cause them:
 * DEADLINE_EXCEEDED is 408, not 504, and UNIMPLEMENTED is 404, not 501.
 */
const AS_HTTP = [200, 499, 500, 400, 408, 404, 409, 403, 429, 400, 409, 400, 404, 500, 503, 500, 401] as const

/** gRPC needs HTTP/2. */
export function isGrpc({ version, fields }: { version: HttpVersion; fields: readonly Field[] }): boolean {
  return version === '2' && CONTENT_TYPE.test(valueIn(fields, 'content-type') ?? '')
}

/** Milliseconds; undefined when absent or malformed. */
export function grpcTimeoutMs(fields: readonly Field[]): number | undefined {
  const [, digits, unit = ''] = TIMEOUT.exec(valueIn(fields, 'grpc-timeout') ?? '') ?? []
  return digits === undefined ? undefined : Number(digits) * (UNIT_MS[unit] as number)
}

/** A number that gRPC does not define counts as UNKNOWN. */
export function grpcStatusIn(fields: readonly Field[]): number | undefined {
  const value = valueIn(fields, 'grpc-status')
  if (value === undefined) return undefined
  return STATUS.test(value) && Number(value) < GRPC_STATUSES.length ? Number(value) : UNKNOWN
}

export function grpcStatusOfHttp(status: number): number {
  return OF_HTTP[status] ?? UNKNOWN
}

export function grpcStatusOfRefusal(status: number): number {
  return OF_REFUSAL[status] ?? UNKNOWN
}

/** The status of HTTP that a call counts as, for circuit breakers and health. */
export function httpStatusOfGrpc(status: number): number {
  return AS_HTTP[status] ?? 500
}

/** @param message shown to the caller */
export function grpcStatusLines(status: number, message: string): string {
  return `grpc-status: ${status}\r\ngrpc-message: ${percentEncoded(message)}\r\n`
}

/** Encodes what is not printable ASCII, and the percent sign (gRPC over HTTP/2, "Status-Message"). */
function percentEncoded(text: string): string {
  let encoded = ''
  for (const byte of Buffer.from(text)) {
    const isPlain = byte >= 0x20 && byte <= 0x7e && byte !== 0x25
    encoded += isPlain ? String.fromCharCode(byte) : percentOctet(byte)
  }
  return encoded
}
