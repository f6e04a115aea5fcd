import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { detailsTerms } from '../config/rules/decision-rules.ts'
import type { Refusal } from '../refusals.ts'
import { matchDetails } from './match-details.ts'
import { makeExchange, makeGateway, makePrincipal, makeRoute } from './stage.test-support.ts'

const PAYMENT = {
  type: 'payment',
  match: { '/instructedAmount/amount': '/amount', '/creditor': '/to', '/currency~1code': '/c~0' },
}
const APPROVED =
  '{"type":"payment","instructedAmount":{"amount":10.50},"creditor":{"iban":"DE1"},"currency/code":"EUR"}'
const BODY = '{"amount":10.5,"to":{"iban":"DE1"},"c~":"EUR","text":"rent"}'

function matched(
  body: string | Buffer,
  details: string = `[${APPROVED}]`,
  headers: Record<string, string> = { 'Content-Type': 'application/json' },
): Refusal | undefined {
  const { gateway } = makeGateway()
  const { exchange } = makeExchange({ method: 'POST', headers: { ...headers, Authorization: 'Bearer x' } })
  exchange.route = makeRoute({ auth: new Set(['bearer']), authorizationDetails: detailsTerms(PAYMENT) })
  exchange.principal = makePrincipal(details === '' ? {} : { authorizationDetails: details })
  exchange.bufferedBody = Buffer.from(body)
  const refused = matchDetails(gateway, exchange)
  assert.equal(refused instanceof Promise, false)
  return refused as Refusal | undefined
}

describe('matchDetails', () => {
  it('lets a body through when one of the details permits all of it', () => {
    assert.equal(matched(BODY), undefined)
    assert.equal(matched(BODY.replace('10.5', '105e-1').replace('amount', '\\u0061mount')), undefined)
    assert.equal(matched(BODY, `[{"type":"other"},${APPROVED.replace('DE1', 'DE2')},${APPROVED}]`), undefined)
  })

  it('refuses any other value with a challenge, and names the member but no value in the log', () => {
    for (const [body, member] of [
      [BODY.replace('10.5', '10.500000000000001'), '/amount'],
      [BODY.replace('10.5', '"10.50"'), '/amount'],
      [BODY.replace('"amount":10.5,', ''), '/amount'],
      [BODY.replace('DE1', 'DE2'), '/to'],
      [BODY.replace('"DE1"', '"DE1","bic":"X"'), '/to'],
      [BODY.replace('EUR', 'USD'), '/c~0'],
      ['[]', '/amount'],
      ['null', '/amount'],
      ['', '/amount'],
    ] as const) {
      const refused = matched(body)
      assert.deepEqual([refused?.status, refused?.code], [403, 'authorization_details_mismatch'], body)
      assert.equal(
        refused?.cause,
        `${member} of the body is not what the token's authorization_details permit`,
      )
      assert.match(refused?.headers[1] ?? '', /^Bearer realm="api", error="insufficient_authorization"$/)
      assert.match(refused?.headers[3] ?? '', /^DPoP algs=/)
    }
  })

  it('refuses a token without a detail of the type, and a body that matches half of one detail and half of another', () => {
    for (const details of [
      '',
      '[]',
      APPROVED,
      JSON.stringify(`[${APPROVED}]`),
      '[{"type":["payment"]},null,"payment",1]',
      `[${APPROVED.replace('payment', 'Payment')}]`,
    ])
      assert.match(
        matched(BODY, details)?.cause ?? '',
        /^the token has no authorization_details of the type "payment"/,
      )
    const halves = `[${APPROVED.replace('10.50', '11')},${APPROVED.replace('DE1', 'DE2')}]`
    assert.equal(matched(BODY, halves)?.code, 'authorization_details_mismatch')
    assert.equal(matched('{"amount":null}', '[{"type":"payment"}]')?.code, 'authorization_details_mismatch')
  })

  it('refuses a body that the service may read otherwise', () => {
    for (const body of [
      BODY.replace('{"amount"', '{"amount":1000,"amount"'),
      BODY.replace('{"amount"', '{"\\u0061mount":1000,"amount"'),
      BODY.replace('{"amount"', '{"Amount":1000,"amount"'),
      BODY.replace('amount', 'Amount'),
      `${BODY}${BODY}`,
      `\ufeff${BODY}`,
      Buffer.from(BODY, 'utf16le'),
      Buffer.from(BODY.replace('rent', 'r\xe9nt'), 'latin1'),
      '{"amount":',
    ])
      assert.deepEqual([matched(body)?.status, matched(body)?.code], [400, 'schema_violation'], String(body))
    for (const headers of [
      {},
      { 'Content-Type': 'application/x-www-form-urlencoded' },
      { 'Content-Type': 'text/json' },
      // Some services cut a type at a comma or space: they would read a form.
      { 'Content-Type': 'application/x-www-form-urlencoded,+json' },
      { 'Content-Type': 'application/x-www-form-urlencoded +json' },
      { 'Content-Type': 'application/json; charset=utf-7' },
      { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' },
      { 'Content-Type': 'application/json', Connection: 'Content-Type' },
    ])
      assert.equal(matched(BODY, undefined, headers)?.code, 'unsupported_media_type', JSON.stringify(headers))
    for (const type of ['application/a+json', 'application/vnd.a-1.b+c+json'])
      assert.equal(matched(BODY, `[${APPROVED}]`, { 'Content-Type': type }), undefined)
  })

  it('looks at nothing where the row does not ask', () => {
    const { gateway } = makeGateway()
    const { exchange } = makeExchange({ method: 'POST' })
    exchange.route = makeRoute()
    assert.equal(matchDetails(gateway, exchange), undefined)
  })
})
