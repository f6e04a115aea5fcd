import type { Exchange } from '../../exchange.ts'
import { MANDATORY_HEADERS } from '../../http/rules/mandatory-headers.ts'
import type { FilteredHead } from '../../http/rules/response-headers.ts'

const MANDATORY_LINES = linesOf(MANDATORY_HEADERS)

/**
 * Writes the head of every response, forwarded or not, and adds the mandatory headers.
 *
 * @param head may not name a mandatory header.
 */
export function writeHead(exchange: Exchange, status: number, head: FilteredHead): void {
  const { contentLength, dated } = head
  exchange.res.writeHead({ status, lines: withMandatory(exchange, head.lines), contentLength, dated })
}

/** Appends the exchange's limit fields and the mandatory headers. */
export function withMandatory({ limitHeaders, requestId }: Exchange, lines: string): string {
  const limits = limitHeaders.length > 0 ? linesOf(limitHeaders) : ''
  return `${lines}${limits}${MANDATORY_LINES}X-Request-ID: ${requestId}\r\n`
}

/** Formats a flat list as lines `Name: value`, each with CR LF. */
export function linesOf(headers: readonly string[]): string {
  let lines = ''
  for (let i = 0; i + 1 < headers.length; i += 2) lines += `${headers[i]}: ${headers[i + 1]}\r\n`
  return lines
}
