import { corsLines, VARY, whyNotAllowed } from '../../edge/rules/policy/cors.ts'
import { INTERACTION_ID } from '../../edge/rules/request-id.ts'
import type { FilteredHead } from '../../edge/rules/response-headers.ts'
import { valueIn } from '../../edge/syntax/field.ts'
import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import { logBrowserRefusal } from './log-refusal.ts'

export function writeHead(gateway: Gateway, exchange: Exchange, status: number, head: FilteredHead): void {
  const { contentLength, dated } = head
  exchange.res.writeHead({
    status,
    lines: withMandatory(gateway, exchange, head.lines),
    contentLength,
    dated,
  })
}

export function withMandatory(gateway: Gateway, exchange: Exchange, lines: string): string {
  const { settings } = gateway
  const { limitHeaders, requestId, interactionId, route } = exchange
  const limits = limitHeaders.length > 0 ? linesOf(limitHeaders) : ''
  const cors = route?.cors === undefined ? '' : corsLines(route.cors, exchange.req.fields)
  if (cors === VARY && exchange.refusalCode !== 'origin_not_allowed') logForeignOrigin(gateway, exchange)
  const own = route === undefined ? settings.responseLines : route.responseLines
  const interaction = interactionId === undefined ? '' : `${INTERACTION_ID}: ${interactionId}\r\n`
  return `${lines}${limits}${cors}${own}${interaction}X-Request-ID: ${requestId}\r\n`
}

/** The gateway's own origin needs no permission. */
function logForeignOrigin(gateway: Gateway, exchange: Exchange): void {
  const { route, req, host } = exchange
  const origin = valueIn(req.fields, 'origin')
  if (origin === undefined || route?.cors === undefined || origin.endsWith(`//${host}`)) return
  logBrowserRefusal(gateway, exchange, whyNotAllowed(route.cors, origin))
}

/** Lines `Name: value`, each with CR LF. */
export function linesOf(headers: readonly string[]): string {
  let lines = ''
  for (let i = 0; i + 1 < headers.length; i += 2) lines += `${headers[i]}: ${headers[i + 1]}\r\n`
  return lines
}
