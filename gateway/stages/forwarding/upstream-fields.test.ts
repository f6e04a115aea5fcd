import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { OWN_REQUEST_FIELDS, type SendingPolicy } from '../../edge/rules/policy/sending-policy.ts'
import { readRequestHeaders } from '../../edge/rules/request-headers.ts'
import { Field } from '../../edge/syntax/field.ts'
import { Exchange } from '../../exchange.ts'
import { makeExchange, makeGateway, makePrincipal, makeRoute, PEER } from '../stage.test-support.ts'
import { upstreamFields } from './upstream-fields.ts'

interface Case {
  readonly headers?: Readonly<Record<string, string>>
  readonly viaTrustedProxy?: boolean
  readonly address?: string
  readonly parts?: Parameters<typeof makeGateway>[0]
  readonly principal?: Parameters<typeof makePrincipal>[0]
}

/** The fields that were sent, by name in lower case. The values of one name are joined. */
function sent({ headers = {}, viaTrustedProxy = false, address = PEER, parts = {}, principal }: Case = {}) {
  const made = makeExchange({ headers })
  const exchange = new Exchange({ ...made.exchange, viaTrustedProxy, address })
  exchange.host = 'api.example'
  if (principal !== undefined) exchange.principal = makePrincipal(principal)
  return byNameOf(upstreamFields(makeGateway(parts).gateway, exchange))
}

function linesIn({ common, fields }: ReturnType<typeof upstreamFields>): string[] {
  return [...common.fields, ...fields].filter(({ lower }) => lower !== 'traceparent').map(({ line }) => line)
}

/** @param which index of the value that each name gets; a name without a value there gets no field */
function fieldsOf(
  headers: Readonly<Record<string, string | readonly (string | undefined)[]>>,
  which = 0,
): Field[] {
  return Object.entries(headers).flatMap(([name, values]) => {
    const value = typeof values === 'string' ? values : values[which]
    return value === undefined ? [] : new Field(name, value)
  })
}

function byNameOf({ common, fields }: ReturnType<typeof upstreamFields>) {
  const byName = Map.groupBy([...common.fields, ...fields], ({ lower }) => lower)
  return new Map([...byName].map(([name, same]) => [name, same.map(({ value }) => value).join(' | ')]))
}

describe('upstreamFields', () => {
  it('says where the request came from', () => {
    const fields = sent()
    assert.equal(fields.get('host'), 'api.example')
    assert.equal(fields.get('x-request-id'), 'request-1')
    assert.equal(fields.get('x-forwarded-for'), PEER)
    assert.equal(fields.get('x-forwarded-proto'), 'http')
    assert.equal(fields.get('x-forwarded-host'), 'api.example')
    assert.equal(fields.get('cdn-loop'), 'countersign; id=here')
    assert.equal(fields.has('x-real-ip'), false)
  })

  it('names the client of a proxy that wrote Forwarded alone', () => {
    const forwarded = 'for=203.0.113.9;proto=https'
    const fields = sent({ headers: { Forwarded: forwarded }, viaTrustedProxy: true, address: '203.0.113.9' })
    assert.equal(fields.get('x-forwarded-for'), `203.0.113.9, ${PEER}`)
    assert.equal(fields.get('x-real-ip'), '203.0.113.9')
    assert.equal(fields.get('forwarded'), forwarded)
  })

  it('copies end-to-end fields, and drops those of the connection', () => {
    const fields = sent({
      headers: { 'X-Custom': 'a', 'X-Hop': 'b', Connection: 'close, x-hop', TE: 'trailers' },
    })
    assert.equal(fields.get('x-custom'), 'a')
    for (const name of ['x-hop', 'connection', 'te']) assert.equal(fields.has(name), false, name)
  })

  it('lets no caller say who it is', () => {
    const forged = {
      'X-Auth-Subject': 'root',
      'X-Auth-Scope': 'all',
      'X-Gateway-Secret': 'x',
      'X-Real-IP': '::1',
    }
    const nobody = sent({ headers: forged })
    for (const name of Object.keys(forged)) assert.equal(nobody.has(name.toLowerCase()), false, name)
    const somebody = sent({ headers: forged, principal: { session: 'session-1' } })
    assert.equal(somebody.get('x-auth-subject'), 'user-1')
    assert.equal(somebody.get('x-auth-client'), 'app-1')
    assert.equal(somebody.get('x-auth-session'), 'session-1')
    assert.equal(somebody.get('x-auth-scope'), 'read')
    assert.equal(somebody.get('x-auth-method'), 'bearer')
  })

  it('lets no Connection field take out what the gateway says', () => {
    const fields = sent({ headers: { Connection: 'x-forwarded-for, x-auth-subject' }, principal: {} })
    assert.equal(fields.get('x-forwarded-for'), PEER)
    assert.equal(fields.get('x-auth-subject'), 'user-1')
  })

  it('continues the chain of a trusted proxy, and of nobody else', () => {
    const headers = { 'X-Forwarded-For': '198.51.100.1', 'X-Forwarded-Proto': 'https' }
    const trusted = sent({ headers, viaTrustedProxy: true, address: '198.51.100.1' })
    assert.equal(trusted.get('x-forwarded-for'), `198.51.100.1, ${PEER}`)
    assert.equal(trusted.get('x-forwarded-proto'), 'https')
    assert.equal(trusted.get('x-real-ip'), '198.51.100.1')
    const direct = sent({ headers })
    assert.equal(direct.get('x-forwarded-for'), PEER)
    assert.equal(direct.get('x-forwarded-proto'), 'http')
  })

  it('keeps a trace that is well-formed, and begins another in place of any other', () => {
    const good = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`
    const kept = sent({ headers: { traceparent: good, tracestate: 'v=1' } })
    assert.deepEqual([kept.get('traceparent'), kept.get('tracestate')], [good, 'v=1'])
    for (const bad of [good.replaceAll('a', '0'), `ff${good.slice(2)}`, `${good}-more`, 'x']) {
      const begun = sent({ headers: { traceparent: bad, tracestate: 'v=1' } })
      assert.notEqual(begun.get('traceparent'), bad)
      assert.match(begun.get('traceparent') ?? '', /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/)
      assert.equal(begun.has('tracestate'), false)
    }
  })

  it('adds itself to Via and proves itself where it is configured to', () => {
    const headers = { Via: '1.1 proxy' }
    assert.equal(sent({ headers }).get('via'), '1.1 proxy')
    const upstreamSecret = new Field('X-Gateway-Secret', 'secret')
    const fields = sent({ headers, parts: { settings: { via: true }, upstreamSecret } })
    assert.equal(fields.get('via'), '1.1 proxy, 1.1 countersign')
    assert.equal(fields.get('x-gateway-secret'), 'secret')
  })
})

describe('requests with the same received fields', () => {
  const exchanges = (headers: Readonly<Record<string, string>> = {}) => {
    const first = makeExchange({ headers }).exchange
    return (change: Partial<Exchange> = {}) => {
      const exchange = new Exchange({ ...first, requestId: 'another', ...change })
      exchange.host = change.host ?? 'api.example'
      exchange.principal = change.principal
      return exchange
    }
  }

  it('share the fields that are the same for all of them, and have the other fields for themselves', () => {
    const { gateway } = makeGateway()
    const next = exchanges({ 'X-Custom': 'a' })
    const principal = makePrincipal({})
    const first = upstreamFields(gateway, next({ principal }))
    const second = upstreamFields(gateway, next({ principal, requestId: 'third' }))
    assert.equal(second.common, first.common)
    const [one, other] = [byNameOf(first), byNameOf(second)]
    assert.deepEqual([other.get('x-custom'), other.get('x-auth-subject')], ['a', 'user-1'])
    assert.deepEqual([one.get('x-request-id'), other.get('x-request-id')], ['another', 'third'])
    assert.notEqual(one.get('traceparent'), other.get('traceparent'))
  })

  it('share nothing once the caller, the target, the proxy or the configuration is another', () => {
    const made = makeGateway()
    const plain = { gateway: made.gateway }
    const headers = { 'X-Forwarded-For': '198.51.100.1', 'X-Fapi-Interaction-Id': 'i' }
    const upstreamSecret = new Field('X-Gateway-Secret', 'secret')
    const cases: [
      string,
      string,
      Partial<Exchange>,
      { readonly gateway: Parameters<typeof upstreamFields>[0] },
    ][] = [
      ['x-auth-subject', 'user-1', { principal: makePrincipal({}) }, plain],
      ['x-forwarded-host', 'other.example', { host: 'other.example' }, plain],
      ['x-real-ip', PEER, { viaTrustedProxy: true }, makeGateway()],
      ['x-real-ip', '198.51.100.1', { viaTrustedProxy: true, address: '198.51.100.1' }, makeGateway()],
      ['x-fapi-interaction-id', 'kept', { interactionId: 'kept' }, makeGateway()],
      ['x-gateway-secret', 'secret', {}, makeGateway({ upstreamSecret })],
      ['via', '1.1 countersign', {}, makeGateway({ settings: { via: true } })],
    ]
    const next = exchanges(headers)
    for (const [name, value, change, { gateway }] of cases) {
      const before = byNameOf(upstreamFields(made.gateway, next()))
      assert.notEqual(before.get(name), value)
      assert.equal(byNameOf(upstreamFields(gateway, next(change))).get(name), value, name)
    }
  })

  it('share nothing where only the mark against loops or the secret is another', () => {
    const { gateway } = makeGateway()
    const next = exchanges()
    for (const loopMark of ['countersign; id=one', 'countersign; id=other']) {
      assert.equal(byNameOf(upstreamFields({ ...gateway, loopMark }, next())).get('cdn-loop'), loopMark)
    }
    for (const secret of ['one', 'other']) {
      const upstreamSecret = new Field('X-Gateway-Secret', secret)
      const fields = byNameOf(upstreamFields({ ...gateway, upstreamSecret }, next()))
      assert.equal(fields.get('x-gateway-secret'), secret)
    }
  })
})

describe('upstreamFields of a row whose requests are signed', () => {
  it('lose a Signature that is none of RFC 9421, which would spoil that of the gateway', () => {
    const { gateway } = makeGateway()
    const cavage = 'keyId="a",signature="AA=="'
    for (const [headers, kept] of [
      [{ Signature: cavage }, undefined],
      [{ Signature: 'sig=:AA==:', 'Signature-Input': 'sig=()' }, 'sig=:AA==:'],
    ] as const) {
      const { exchange } = makeExchange({ headers })
      exchange.host = 'api.example'
      const of = (signedTarget: string | undefined) => {
        exchange.route = makeRoute({ signedTarget })
        return byNameOf(upstreamFields(gateway, exchange)).get('signature')
      }
      // The fields for a row that signs nothing stay unchanged.
      assert.deepEqual(
        [of(undefined), of('http://a'), of(undefined)],
        [headers.Signature, kept, headers.Signature],
      )
    }
  })
})

describe('upstreamFields of a row', () => {
  const NOTHING: SendingPolicy = {
    rewrite: undefined,
    isRaw: false,
    host: undefined,
    namesTarget: false,
    allowed: new Set(),
    removed: new Set(),
    added: [],
  }
  const names = fc.constantFrom(
    'X-A',
    'Cookie',
    'X-Auth-Token',
    'x-auth-subject',
    'X_Env',
    'Via',
    'Client-Cert',
    'Forwarded',
    'X-Real-IP',
    'TE',
    'Content-Length',
  )
  const received = fc.dictionary(names, fc.constantFrom('1', 'a b', '\xe9'))

  it('are the same lines whether or not they are shared with the request before', () => {
    const value = fc.option(fc.constantFrom('1', '22', 'idempotency-key'), { nil: undefined })
    const names = fc.constantFrom(
      ...['Content-Length', 'Idempotency-Key', 'X-Request-ID', 'Connection', 'X-A'],
      ...['Content-Digest', 'Signature', 'Signature-Input'],
    )
    const rows = fc.constantFrom(undefined, NOTHING, { ...NOTHING, removed: new Set(['idempotency-key']) })
    const targets = fc.constantFrom(undefined, 'http://a')
    const { gateway } = makeGateway({})
    const principal = makePrincipal({})
    let shared = 0
    fc.assert(
      fc.property(
        received,
        fc.dictionary(names, fc.tuple(value, value)),
        rows,
        targets,
        (headers, own, sending, signedTarget) => {
          const repeated = fieldsOf(headers)
          const sentWith = (which: 0 | 1, made?: object) => {
            const plain = makeExchange().exchange
            const fields = [...repeated, ...fieldsOf(own, which)]
            const read = Object.assign(readRequestHeaders(fields, '1.1', 100), { made })
            const req = { ...plain.req, fields, headers: read } as object as typeof plain.req
            const exchange = Object.assign(new Exchange({ ...plain, req }), {
              host: 'api.example',
              principal,
            })
            exchange.route = makeRoute({ sending, signedTarget })
            return { ...upstreamFields(gateway, exchange), made: read.made }
          }
          const first = sentWith(0)
          const [next, fresh] = [sentWith(1, first.made), sentWith(1)]
          assert.deepEqual(linesIn(next), linesIn(fresh))
          shared += Number(next.common === first.common && !isDeepStrictEqual(linesIn(next), linesIn(first)))
        },
      ),
      { examples: [[{}, { Signature: ['1', '22'] }, undefined, undefined]] },
    )
    assert.ok(shared > 0)
  })

  function lines(headers: Record<string, string>, sending: SendingPolicy | undefined): string[] {
    const { exchange } = makeExchange({ headers })
    exchange.host = 'api.example'
    exchange.route = makeRoute({ sending })
    exchange.principal = makePrincipal({})
    return linesIn(upstreamFields(makeGateway({}).gateway, exchange))
  }

  it('are the same lines in the same order where it changes nothing', () => {
    fc.assert(
      fc.property(received, (headers) =>
        assert.deepEqual(lines(headers, NOTHING), lines(headers, undefined)),
      ),
    )
  })

  it('say what the gateway says, once, whatever the row allows, sets and removes', () => {
    const added = [new Field('X-Env', 'prod')]
    const sending = {
      ...NOTHING,
      allowed: new Set(['x-auth-token']),
      removed: new Set(['x-env', 'cookie']),
      added,
    }
    fc.assert(
      fc.property(received, (headers) => {
        const own = (all: string[]) =>
          all.filter((line) => OWN_REQUEST_FIELDS.has(line.slice(0, line.indexOf(':')).toLowerCase()))
        const sent = lines(headers, sending)
        assert.deepEqual(own(sent), own(lines(headers, undefined)))
        assert.deepEqual(
          sent.filter((line) => /^(?:x.env|cookie):/i.test(line)),
          ['X-Env: prod\r\n'],
        )
      }),
    )
  })
})
