import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Decision } from '../auth/decisions/decider.ts'
import { decisionTerms } from '../config/rules/decision-rules.ts'
import type { Principal } from '../principal.ts'
import { decide } from './decide.ts'
import { makeExchange, makeGateway, makePrincipal, makeRoute } from './stage.test-support.ts'

const WRITTEN = {
  url: 'https://decider.example/access/v1/evaluation',
  timeoutMs: 200,
  cache: 'off',
  onFailure: 'deny',
  body: [],
} as const
const JSON_BODY = { 'Content-Type': 'application/json' }

interface Asked {
  readonly path?: string
  readonly template?: string
  readonly members?: readonly string[]
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly principal?: Partial<Principal>
  readonly decision?: Decision
}

/** Runs the stage with a decider of the test. */
function decided(asked: Asked = {}) {
  const { path = '/pay/1', template = '/pay/{id}', members = [], headers = JSON_BODY } = asked
  const terms = decisionTerms({ ...WRITTEN, body: members }, template)
  const questions: string[] = []
  const decider = {
    decide: (question: string) => {
      questions.push(question)
      return asked.decision ?? ({ outcome: 'allowed', id: 'd-1' } as const)
    },
  }
  const { gateway, measured } = makeGateway({ deciders: new Map([[terms.key, decider as never]]) })
  const { exchange } = makeExchange({ method: 'POST', headers })
  exchange.path = path
  exchange.route = makeRoute({ path: template, decision: terms })
  exchange.principal = makePrincipal(asked.principal)
  if (asked.body !== undefined) exchange.bufferedBody = Buffer.from(asked.body)
  const refused = decide(gateway, exchange)
  assert.ok(!(refused instanceof Promise))
  return { refused, exchange, measured, questions }
}

describe('decide', () => {
  it('asks who does what where, and sends members of the body as they are written', () => {
    const { refused, questions, exchange, measured } = decided({
      template: '/pay/{id}/{__proto__}',
      path: '/pay/a%22%2C%22x%22%3A1/%C3%BC',
      members: ['/amount', '/to~1x', '/gone', '/list/0'],
      body: '{"amount":12345678901234567890.10,"to/x":{"iban":"DE1"},"list":[1e2],"other":1}',
      principal: { acr: 'sca', scopes: new Set(['pay', 'read']) },
    })
    assert.equal(refused, undefined)
    assert.equal(
      questions[0],
      '{"subject":{"type":"identity","id":"user-1"},"action":{"name":"POST"},' +
        '"resource":{"type":"route","id":"/pay/{id}/{__proto__}"},' +
        '"context":{"client":"app-1","scopes":["pay","read"],"acr":"sca",' +
        '"parameters":{"id":"a\\",\\"x\\":1","__proto__":"ü"},' +
        '"body":{"/amount":12345678901234567890.10,"/to~1x":{"iban":"DE1"},"/list/0":1e2}}}',
    )
    assert.equal(exchange.decisionId, 'd-1')
    assert.deepEqual(measured, ['gateway_decisions_total /pay/{id}/{__proto__} allowed'])
  })

  it('asks about a machine as its client, and reads no body where no member is sent', () => {
    const principal = { subject: undefined, client: 'bank-b' }
    const { questions } = decided({ principal, headers: {}, body: 'a=1' })
    const { subject, context } = JSON.parse(questions[0] ?? '')
    assert.deepEqual([subject.id, context.client, context.body], ['bank-b', 'bank-b', {}])
  })

  it('leaves out members that an empty body lacks', () => {
    const { questions } = decided({ members: ['/amount'], headers: {} })
    assert.deepEqual(JSON.parse(questions[0] ?? '').context.body, {})
  })

  it('refuses what the service may read otherwise than the decider, and does not ask the decider', () => {
    for (const [asked, code] of [
      [{ body: '{"amount":1,"amount":2}' }, 'schema_violation'],
      [{ body: '{"Amount":1000}' }, 'schema_violation'],
      [{ members: ['/to'], body: '{"to":{"iban":"DE1","IBAN":"DE2"}}' }, 'schema_violation'],
      [{ members: ['/to'], body: '{"to":[{"a":{"\\u017fum":1,"sum":2}}]}' }, 'schema_violation'],
      [{ body: 'amount=1000', headers: {} }, 'unsupported_media_type'],
      [
        { body: '{"amount":1}', headers: { ...JSON_BODY, 'Content-Encoding': 'br' } },
        'unsupported_media_type',
      ],
      [{ path: '/pay/blocked;x=1', body: '{}' }, 'invalid_target'],
      [{ template: '/pay/{id}%A9', path: '/pay/%C3%A9', body: '{}' }, 'invalid_target'],
    ] as const) {
      const { refused, questions } = decided({ members: ['/amount'], ...asked })
      assert.deepEqual([refused?.code, questions.length], [code, 0], JSON.stringify(asked))
    }
  })

  it('refuses with 403 what the decider denies, and with 503 what it does not decide', () => {
    const denied = decided({ decision: { outcome: 'denied', id: 'd-2' } })
    assert.deepEqual([denied.refused?.status, denied.refused?.code], [403, 'decision_denied'])
    assert.equal(denied.exchange.decisionId, 'd-2')
    assert.match(denied.measured.join(), / denied$/)
    for (const outcome of ['failed', 'breaker_open', 'too_many', 'client_gone'] as const) {
      const { refused, measured } = decided({ decision: { outcome, cause: 'why' } })
      assert.deepEqual([refused?.status, refused?.code, refused?.cause], [503, 'decision_unavailable', 'why'])
      assert.deepEqual(refused?.headers, ['Retry-After', '5'])
      assert.equal(measured.length, outcome === 'client_gone' ? 0 : 1)
    }
  })

  it('asks nobody where the row has no decider', () => {
    const { gateway } = makeGateway()
    const { exchange } = makeExchange()
    exchange.route = makeRoute()
    assert.equal(decide(gateway, exchange), undefined)
  })
})
