import type { Readable } from 'node:stream'
import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { boundedBody } from '../http/bodies/bounded-body.ts'
import { bodyOf } from '../http/bodies/buffered-body.ts'
import { bodyTooLarge } from '../refusals.ts'
import { Forwarding } from './forwarding/forwarding.ts'
import { upstreamFields } from './forwarding/upstream-fields.ts'

/** Sends an admitted request upstream and passes the response back, streamed both ways. */
export function forward(gateway: Gateway, exchange: Exchange): void {
  const { req, res, headers, route } = exchange
  if (route === undefined) throw new Error('an exchange without a route cannot be forwarded')
  // First, because only this can throw, and nothing has been sent yet.
  const fields = upstreamFields(gateway, exchange)
  // RFC 9110 section 10.1.1: 100 (Continue) only with a body, and never to HTTP/1.0.
  const unread = headers.hasBody && exchange.bufferedBody === undefined
  if (headers.expect !== undefined && unread && req.version !== '1.0') res.writeInterim(100, '')
  res.idleMs = route.idleTimeoutMs
  const forwarding = new Forwarding(gateway, exchange)
  let body: Readable | null = exchange.bufferedBody === undefined ? null : bodyOf(exchange.bufferedBody)
  if (unread && req.body !== null) {
    body =
      headers.contentLength !== undefined
        ? req.body
        : boundedBody(req.body, {
            maxBytes: route.maxBodyBytes,
            onExceeded: () => forwarding.give(bodyTooLarge(route.maxBodyBytes)),
          })
  }
  forwarding.call = route.client.send(
    {
      method: exchange.method,
      target: exchange.path + exchange.query,
      fields,
      body,
      upgrade: exchange.upgrade,
      idleMs: route.idleTimeoutMs,
      totalMs: route.timeoutMs,
      attempts: exchange.trace,
    },
    forwarding,
  )
  exchange.forwarding = forwarding
}
