import { STATUS_CODES } from 'node:http'
import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { dateOf } from '../http/date.ts'
import { MANDATORY_HEADERS } from '../http/mandatory-headers.ts'

const MANDATORY_LINES = linesOf(MANDATORY_HEADERS)

/**
 * The one place where the head of an answer is written, whoever made the answer: what belongs on every answer is put
 * on here.
 *
 * @param headers flat list, not used again by the caller; may not name a mandatory header.
 */
export function writeHead(exchange: Exchange, status: number, headers: string[]): void {
  exchange.res.writeHead(status, withMandatory(exchange, headers))
}

/** The same list with the exchange's limit fields and the mandatory headers at its end. */
export function withMandatory(exchange: Exchange, headers: string[]): string[] {
  headers.push(...exchange.limitHeaders, ...MANDATORY_HEADERS, 'X-Request-ID', exchange.requestId)
  return headers
}

/** An answer that is all there: head and body, the body as latin1 text of exactly its bytes. */
export interface WholeAnswer {
  readonly status: number
  /** As for `writeHead`; names Content-Length. */
  readonly headers: readonly string[]
  readonly body: string
}

/** Whether `writeWhole` may write the answer: the connection stays open, and nobody has begun another head. */
export function isOrdinary({ req, res }: Exchange): boolean {
  return req.httpVersion === '1.1' && req.method !== 'HEAD' && res.shouldKeepAlive && !res.headersSent
}

/**
 * Writes an ordinary answer of known length in one piece. Node's own way checks and copies every header by itself and
 * sends head and body as three parts; here the text of all of it stands where Node keeps the text of the head
 * (`_header`, without a type), and `end` sends it as it is. What is in it was checked when the upstream's answer was
 * read.
 */
export function writeWhole(
  gateway: Gateway,
  exchange: Exchange,
  { status, headers, body }: WholeAnswer,
): void {
  const { res, limitHeaders, requestId } = exchange
  let text = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'unknown'}\r\n${linesOf(headers)}`
  if (limitHeaders.length > 0) text += linesOf(limitHeaders)
  text += `${MANDATORY_LINES}X-Request-ID: ${requestId}\r\n`
  if (!names(headers, 'date')) text += `Date: ${dateOf(gateway.clock())}\r\n`
  const keepAliveSeconds = Math.floor(gateway.settings.timeouts.keepAliveMs / 1000)
  text += `Connection: keep-alive\r\nKeep-Alive: timeout=${keepAliveSeconds}\r\n\r\n${body}`
  res.statusCode = status
  Object.assign(res, { _header: text })
  res.end()
}

function linesOf(headers: readonly string[]): string {
  let lines = ''
  for (let i = 0; i + 1 < headers.length; i += 2) lines += `${headers[i]}: ${headers[i + 1]}\r\n`
  return lines
}

function names(headers: readonly string[], name: string): boolean {
  for (let i = 0; i < headers.length; i += 2) {
    const given = headers[i] as string
    if (given.length === name.length && given.toLowerCase() === name) return true
  }
  return false
}
