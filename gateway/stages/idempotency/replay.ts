import { filterResponseHead } from '../../edge/rules/response-headers.ts'
import { Field } from '../../edge/syntax/field.ts'
import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import type { KeptResponse } from '../../idempotency/key-record.ts'
import { close } from '../close.ts'
import { signResponse } from '../response/sign-response.ts'
import { writeHead } from '../response/write-response.ts'
import { fieldsIn } from './kept-fields.ts'

const REPLAYED = new Field('Idempotency-Replayed', 'true')

/** Ends an exchange with the response that its key was given first. @param kept body of that response, latin1 */
export function replay(
  gateway: Gateway,
  exchange: Exchange,
  { status, fields, body: kept }: KeptResponse & { readonly body: string },
): void {
  const body = Buffer.from(kept, 'latin1')
  const { res, route } = exchange
  const isBodiless = status === 204 || status === 304
  const length = isBodiless ? [] : [new Field('Content-Length', String(body.length))]
  const unsigned = filterResponseHead(
    [...fieldsIn(fields), ...length, REPLAYED],
    status,
    exchange,
    route?.forwarded,
  )
  const head = signResponse(gateway, exchange, { status, head: unsigned, body })
  if (gateway.load.phase !== 'serving') res.keepAlive = false
  close(gateway, exchange, status)
  writeHead(gateway, exchange, status, head)
  if (body.length > 0 && !isBodiless) res.write(body)
  res.end()
}
