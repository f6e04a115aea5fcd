import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { after, before, describe, it } from 'node:test'
import { parseClients, webhookClientFaults } from '../config/clients/clients-file.ts'
import { call, type ReceivedResponse } from './client.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const SECRETS = {
  STANDARD: `whsec_${createHmac('sha256', 'a').digest('base64')}`,
  SVIX: `whsec_${createHmac('sha256', 'b').digest('base64')}`,
  STRIPE: 'whsec_of_stripe_as_it_stands',
  STRIPE_OLD: 'whsec_of_stripe_before_that',
  GITHUB: 'the-secret-of-the-repository',
  SLACK: '8f742231b10e8888abcd99yyyzzz85a5',
  SQUARE: 'the-signature-key-of-square',
  OTHER: `whsec_${createHmac('sha256', 'c').digest('base64')}`,
}
const BODY = '{"amount":1}'
const PUBLIC_URL = 'https://api.bank.example'

type Headers = Readonly<Record<string, string>>

const seconds = (offset = 0) => String(Math.floor(Date.now() / 1000) + offset)
const mac = (
  secret: string | Buffer,
  text: string,
  encoding: 'hex' | 'base64' = 'hex',
  algorithm = 'sha256',
) => createHmac(algorithm, secret).update(text).digest(encoding)
const bytesOf = (secret: string) => Buffer.from(secret.slice('whsec_'.length), 'base64')

function standard(prefix: string, secret: string, id: string, at = seconds()): Headers {
  const signature = `v1,${mac(bytesOf(secret), `${id}.${at}.${BODY}`, 'base64')}`
  return { [`${prefix}-id`]: id, [`${prefix}-timestamp`]: at, [`${prefix}-signature`]: signature }
}

/** https://docs.stripe.com/webhooks?verify=verify-manually */
function stripe(body: string, { secret = SECRETS.STRIPE, at = seconds(), version = 'v1' } = {}): Headers {
  return { 'Stripe-Signature': `t=${at},${version}=${mac(secret, `${at}.${body}`)}` }
}

/** https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries */
function github(body: string, id: string, secret = SECRETS.GITHUB): Headers {
  return { 'X-GitHub-Delivery': id, 'X-Hub-Signature-256': `sha256=${mac(secret, body)}` }
}

/** https://docs.slack.dev/authentication/verifying-requests-from-slack */
function slack(body: string, at = seconds()): Headers {
  const signature = `v0=${mac(SECRETS.SLACK, `v0:${at}:${body}`)}`
  return { 'X-Slack-Request-Timestamp': at, 'X-Slack-Signature': signature }
}

/** https://developer.squareup.com/docs/webhooks/step3validate */
function square(body: string, url: string): Headers {
  return { 'x-square-hmacsha256-signature': mac(SECRETS.SQUARE, url + body, 'base64') }
}

const secretsAt = (...names: (keyof typeof SECRETS)[]) => names.map((env) => ({ env }))
const CLIENTS = [
  { id: 'standard', hmac: { secrets: secretsAt('STANDARD') } },
  { id: 'svix', hmac: { scheme: 'svix', secrets: secretsAt('SVIX') } },
  { id: 'stripe', hmac: { scheme: 'stripe', secrets: secretsAt('STRIPE_OLD', 'STRIPE') } },
  { id: 'github', hmac: { scheme: 'github', secrets: secretsAt('GITHUB') } },
  {
    id: 'slack',
    hmac: {
      scheme: {
        header: 'X-Slack-Signature',
        algorithm: 'sha256',
        encoding: 'hex',
        prefix: 'v0=',
        signed: 'v0:{timestamp}:{body}',
        timestampHeader: 'X-Slack-Request-Timestamp',
      },
      secrets: secretsAt('SLACK'),
    },
  },
  {
    id: 'square',
    hmac: {
      scheme: {
        header: 'X-Square-HmacSha256-Signature',
        algorithm: 'sha256',
        encoding: 'base64',
        signed: '{url}{body}',
      },
      secrets: secretsAt('SQUARE'),
    },
  },
  { id: 'other', hmac: { keyId: 'key_other', secrets: secretsAt('OTHER') } },
].map((client) => ({ scopes: [], ...client }))

describe('a webhook whose client the row names', () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  let failing = false
  let isHolding = false
  let held: ServerResponse | undefined
  let made = 0

  before(async () => {
    upstream = await startUpstream((req, res) => {
      req.resume()
      req.on('end', () => {
        res.statusCode = failing ? 500 : 200
        if (isHolding) held = res
        else res.end(String(req.headers['x-auth-client']))
      })
    })
    gateway = await startGateway({
      config: {
        upstream: upstream.url,
        authThrottle: { failures: 0 },
        dpop: { publicUrls: [PUBLIC_URL] },
        timeouts: { drainMs: 60_000 },
        routes: [...CLIENTS.map(({ id }) => ({ path: `/${id}`, auth: ['hmac'], webhookClient: id }))],
      },
      clients: CLIENTS,
      env: SECRETS,
    })
  })
  after(() => {
    gateway.kill()
    upstream.close()
  })

  const send = (to: string, headers: Headers, body = BODY): Promise<ReceivedResponse> =>
    call(`${gateway.url}/${to}`, { method: 'POST', headers, body })
  const fresh = () => `{"event":${++made}}`
  async function passes(to: string, headers: Headers, body = BODY): Promise<void> {
    const { status, body: client } = await send(to, headers, body)
    assert.deepEqual([status, client], [200, to])
  }
  async function refuses(what: string, status: number, response: Promise<ReceivedResponse>): Promise<void> {
    const answer = await response
    assert.equal(answer.status, status, `${what}: ${answer.body}`)
  }

  it('passes as that client, signed by each scheme', async () => {
    await passes('standard', standard('webhook', SECRETS.STANDARD, 'msg_1'))
    await passes('svix', standard('svix', SECRETS.SVIX, 'msg_1'))
    await passes('stripe', stripe(BODY))
    await passes('github', github(BODY, 'a'))
    await passes('slack', slack(BODY))
    await passes('square', square(BODY, `${PUBLIC_URL}/square`))
  })

  it('passes with any of several secrets and signatures', async () => {
    const body = fresh()
    const at = seconds()
    const [old] = Object.values(stripe(body, { secret: SECRETS.STRIPE_OLD, at }))
    await passes('stripe', { 'Stripe-Signature': `${old},v1=${'0'.repeat(64)},v0=${'1'.repeat(64)}` }, body)
    // Another signature of the same event does not make it another event.
    await refuses('replay by another secret', 409, send('stripe', stripe(body, { at }), body))
  })

  it('is refused for each change of an attacker', async () => {
    const body = fresh()
    const sha1 = { 'X-Hub-Signature': `sha1=${mac(SECRETS.GITHUB, body, 'hex', 'sha1')}` }
    const at = seconds()
    const [good] = Object.values(stripe(body, { at }))
    const table: [what: string, to: string, headers: Headers][] = [
      ['no signature', 'github', {}],
      ['wrong secret', 'github', github(body, 'b', SECRETS.SQUARE)],
      ['wrong secret', 'stripe', stripe(body, { secret: SECRETS.GITHUB })],
      ['sha1 header', 'github', sha1],
      ['sha1 in the sha256 header', 'github', { 'X-Hub-Signature-256': sha1['X-Hub-Signature'] }],
      [
        'sha1 named sha256',
        'github',
        { 'X-Hub-Signature-256': sha1['X-Hub-Signature'].replace('sha1', 'sha256') },
      ],
      ['v0', 'stripe', stripe(body, { version: 'v0' })],
      ['two times', 'stripe', { 'Stripe-Signature': `${good},t=${at}` }],
      ['two times', 'stripe', { 'Stripe-Signature': `t=${seconds(-1)},${good}` }],
      ['no time', 'stripe', { 'Stripe-Signature': `v1=${mac(SECRETS.STRIPE, `.${body}`)}` }],
      ['future', 'stripe', stripe(body, { at: seconds(320) })],
      ['past', 'stripe', stripe(body, { at: seconds(-320) })],
      ['future', 'slack', slack(body, seconds(320))],
      ['empty', 'stripe', { 'Stripe-Signature': '' }],
      ['empty', 'github', { 'X-Hub-Signature-256': '' }],
      ['empty', 'github', { 'X-Hub-Signature-256': 'sha256=' }],
      ['short', 'github', { 'X-Hub-Signature-256': `sha256=${mac(SECRETS.GITHUB, body).slice(2)}` }],
      ['other URL', 'square', square(body, 'https://evil.example/square')],
      ['other scheme', 'github', standard('webhook', SECRETS.STANDARD, 'msg_9')],
      ['svix headers', 'standard', standard('svix', SECRETS.STANDARD, 'msg_9')],
    ]
    for (const [what, to, headers] of table) await refuses(`${what} at ${to}`, 401, send(to, headers, body))
    await refuses('other body', 401, send('github', github(body, 'c'), `${body} `))
    const signed = square('[1,2]', `${PUBLIC_URL}/square?k=1`)
    await refuses('body as a part of the URL', 401, send('square?k=1[1,', signed, '2]'))
  })

  it('is refused if another client signed it, whatever X-API-Key says', async () => {
    const theirs = { 'X-API-Key': 'key_other', ...standard('webhook', SECRETS.OTHER, 'msg_2') }
    await refuses('another client', 401, send('standard', theirs))
    const unknown = { 'X-API-Key': 'key_of_the_service', ...standard('webhook', SECRETS.STANDARD, 'msg_3') }
    await passes('standard', unknown)
  })

  it('is refused as a replay: by id and time, by signed content, or by the unsigned id', async () => {
    const first = standard('svix', SECRETS.SVIX, 'msg_r')
    await passes('svix', first)
    await refuses('svix', 409, send('svix', first))
    const body = fresh()
    const event = stripe(body)
    await passes('stripe', event, body)
    await refuses('stripe', 409, send('stripe', event, body))
    await passes('github', github(body, 'r1'), body)
    await refuses('github', 409, send('github', github(body, 'r1'), body))
    await refuses('github under another id', 409, send('github', github(body, 'r2'), body))
    const other = fresh()
    await refuses('github with a known id', 409, send('github', github(other, 'r1'), other))
    await passes('github', github(other, 'r3'), other)
  })

  it('passes again after a failure of the service, until the service accepts it', async () => {
    const body = fresh()
    failing = true
    const answer = await send('github', github(body, 'f'), body).finally(() => {
      failing = false
    })
    assert.equal(answer.status, 500)
    await passes('github', github(body, 'f'), body)
    await refuses('taken', 409, send('github', github(body, 'f'), body))
  })

  it('reaches the service once in spite of a restart, and passes again if the service failed', async () => {
    const begun = async (id: string) => {
      const body = fresh()
      const deliver = () => send('github', github(body, id), body)
      isHolding = true
      held = undefined
      const first = deliver()
      first.catch(() => {})
      const response = await until(() => held)
      isHolding = false
      return { deliver, first, response }
    }
    const [taken, failed, cut] = [await begun('taken'), await begun('failed'), await begun('cut')]
    const all = [taken, failed, cut]
    assert.equal((await gateway.restart()).restarted, true)
    for (const { deliver } of all) await refuses('under way', 409, deliver())
    taken.response.end('taken')
    assert.equal((await taken.first).status, 200)
    failed.response.writeHead(500).end()
    assert.equal((await failed.first).status, 500)
    // The new process learns of the failure a moment later.
    const passesAgain = ({ deliver }: typeof failed) =>
      until(async () => ((await deliver()).status === 200 ? true : undefined))
    await passesAgain(failed)
    await refuses('cut', 409, cut.deliver())
    gateway.process.child.kill('SIGKILL')
    await passesAgain(cut)
    for (const { deliver } of all) await refuses('taken', 409, deliver())
  })
})

it('a described scheme that proves nothing is a fault', async () => {
  const scheme = { header: 'X-Sig', algorithm: 'sha256', encoding: 'hex' }
  const faulty: [object, RegExp][] = [
    [{ ...scheme, signed: '{timestamp}' }, /must have \{body\}/],
    [{ ...scheme, signed: '{timestamp}.{body}' }, /needs "timestampHeader"/],
    [{ ...scheme, signed: '{id}{body}', idHeader: 'X-Id' }, /a text after \{id\}/],
    [{ ...scheme, signed: '{body}', timestampHeader: 'X-At' }, /proves nothing/],
    [{ ...scheme, signed: '{body}{nonce}' }, /the parts are/],
    [{ ...scheme, signed: '{body}', tolerance: '1m' }, /needs "timestampHeader"/],
  ]
  for (const [written, reason] of faulty) {
    const { faults } = parseClients(
      'clients.json',
      JSON.stringify({ clients: [{ id: 'a', hmac: { scheme: written, secrets: [{ env: 'GITHUB' }] } }] }),
      { env: SECRETS, readFile: () => '' },
    )
    assert.match(faults?.map((fault) => fault.reason).join() ?? '', reason)
  }
})

it('a row that names a client without webhooks is a fault', () => {
  const { value } = parseClients('clients.json', JSON.stringify({ clients: CLIENTS }), {
    env: SECRETS,
    readFile: () => '',
  })
  assert.ok(value)
  const routes = [{ webhookClient: undefined }, { webhookClient: 'github' }, { webhookClient: 'nobody' }]
  assert.deepEqual(webhookClientFaults('gateway.json', routes, value), [
    {
      file: 'gateway.json',
      path: '$.routes[2].webhookClient',
      reason: 'names no client of clients.json with "hmac": "nobody"',
    },
  ])
})
