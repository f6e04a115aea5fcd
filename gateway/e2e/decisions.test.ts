import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { freePort } from '../../backend/testing/free-port.ts'
import { call } from './client.ts'
import { describeWithPrograms } from './other-programs.ts'
import { commonGateway, startGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

interface Question {
  readonly subject: object
  readonly action: object
  readonly resource: object
  readonly context: { readonly parameters: { readonly iban: string }; readonly body: Record<string, number> }
}

interface Recorded {
  readonly method: string
  readonly claims: object
  readonly body: string
  /** The status that the client got. */
  readonly status: number
  readonly question: string
  readonly answer: { readonly status: number; readonly text: string }
}

const OPA: readonly Recorded[] = JSON.parse(
  readFileSync(new URL('opa-recording.json', import.meta.url), 'utf8'),
).cases

describe('a decider', () => {
  let upstream: TestUpstream
  let decider: Server
  let gateway: TestGateway
  let token: string
  const asked: Question[] = []
  before(async () => {
    upstream = await startUpstream()
    // Responds as the examples of the AuthZEN Authorization API 1.0 do.
    decider = createServer(async (req, res) => {
      const chunks: Buffer[] = []
      for await (const chunk of req) chunks.push(chunk)
      const text = Buffer.concat(chunks).toString()
      if (req.url === '/opa') {
        const { answer } = OPA.find(({ question }) => question === text) ?? {}
        res.writeHead(answer?.status ?? 404, { 'content-type': 'application/json' }).end(answer?.text)
        return
      }
      const question: Question = JSON.parse(text)
      asked.push(question)
      if (question.context.parameters.iban === 'broken') req.socket.destroy()
      const decision = (question.context.body['/amount'] ?? 0) <= 100
      res
        .setHeader('content-type', 'application/json')
        .setHeader('x-request-id', `${req.headers['x-request-id']}`)
      res.end(JSON.stringify({ decision, ...(decision && { context: { id: `d-${asked.length}` } }) }))
    }).listen(0, '127.0.0.1')
    await once(decider, 'listening')
    const origin = `http://127.0.0.1:${(decider.address() as AddressInfo).port}`
    const url = `${origin}/access/v1/evaluation`
    gateway = await commonGateway({
      config: {
        upstream: upstream.url,
        routes: [
          {
            path: '/accounts/{iban}/payments',
            auth: ['bearer'],
            decision: { url, timeoutMs: 10_000, body: ['/amount'] },
          },
          {
            path: '/cached/{iban}',
            auth: ['bearer'],
            decision: { url, timeoutMs: 10_000, cache: '1m', body: ['/amount'] },
          },
          {
            path: '/payments/{iban}',
            auth: ['bearer'],
            decision: { url: `${origin}/opa`, timeoutMs: 10_000, body: ['/amount'] },
          },
        ],
      },
    })
    token = await upstream.issuer.token({ acr: 'sca' })
  })
  after(async () => {
    upstream?.close()
    decider?.close()
    decider?.closeAllConnections()
  })

  const pay = (path: string, body: string) =>
    call(gateway.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body,
    })

  it('lets an allowed request through unchanged, and the trail has the id of the decision', async () => {
    const text = '{ "\\u0061mount": 100.00, "to": "x" }'
    const paid = await pay('/accounts/DE1/payments', text)
    assert.equal(paid.status, 200, paid.body)
    assert.equal(upstream.seen.at(-1)?.body, text)
    assert.deepEqual(asked.at(-1), {
      subject: { type: 'identity', id: 'user-1' },
      action: { name: 'POST' },
      resource: { type: 'route', id: '/accounts/{iban}/payments' },
      context: {
        scopes: ['accounts:read'],
        acr: 'sca',
        parameters: { iban: 'DE1' },
        body: { '/amount': 100 },
      },
    })
    const [, response] = await gateway.pair(String(paid.headers['x-request-id']))
    assert.equal(response.decisionId, `d-${asked.length}`)
  })

  it('stops a request that it denies, or does not decide about', async () => {
    const before = upstream.seen.length
    const denied = await pay('/accounts/DE1/payments', '{"amount":100.01}')
    assert.deepEqual([denied.status, denied.json().code], [403, 'decision_denied'])
    const id = String(denied.headers['x-request-id'])
    assert.equal((await gateway.pair(id))[1].decisionId, id)
    const undecided = await pay('/accounts/broken/payments', '{"amount":1}')
    assert.deepEqual([undecided.status, undecided.json().code], [503, 'decision_unavailable'])
    assert.equal(upstream.seen.length, before)
    const route = 'route="/accounts/{iban}/payments"'
    assert.equal(await gateway.metric(`gateway_decisions_total{${route},outcome="denied"}`), 1)
    assert.equal(await gateway.metric(`gateway_decisions_total{${route},outcome="failed"}`), 1)
  })

  it('gets equal questions once where its decisions are cached, also after an edit of other keys', async () => {
    const before = asked.length
    const paid = await Promise.all(Array.from({ length: 10 }, () => pay('/cached/DE1', '{"amount":1}')))
    assert.deepEqual(new Set(paid.map(({ status }) => status)), new Set([200]))
    assert.equal(asked.length, before + 1)
    assert.equal((await pay('/cached/DE1', '{"amount":1.0}')).status, 200)
    assert.equal(asked.length, before + 2)
    const file = join(gateway.dir, 'gateway.json')
    await gateway.become({ config: { ...JSON.parse(readFileSync(file, 'utf8')), maxInFlight: 77 } })
    assert.equal((await pay('/cached/DE1', '{"amount":1}')).status, 200)
    assert.equal(asked.length, before + 2)
  })

  it('gets the questions that OPA got in a recording, and the recorded decisions have the same effect', async () => {
    for (const { method, claims, body, status, answer } of OPA) {
      const authorization = `Bearer ${await upstream.issuer.token({ ...claims })}`
      const headers = { authorization, 'content-type': 'application/json' }
      const response = await call(`${gateway.url}/payments/DE1`, { method, headers, body })
      assert.equal(response.status, status, `${method} ${body} ${answer.text}`)
    }
    const outcomes = ['allowed', 'denied', 'failed'].map((outcome) =>
      gateway.metric(`gateway_decisions_total{route="/payments/{iban}",outcome="${outcome}"}`),
    )
    assert.deepEqual(await Promise.all(outcomes), [3, 6, 1])
  })
})

const POLICY = `
apiVersion: api.cerbos.dev/v1
resourcePolicy:
  resource: route
  version: default
  rules:
    - actions: [POST]
      effect: EFFECT_ALLOW
      roles: ["*"]
      condition: { match: { expr: 'P.id == "user-1" && R.id == "/accounts/{iban}/payments"' } }
`

const CERBOS = { title: 'Cerbos as the decider', programs: ['cerbos'], isListed: false } as const

describeWithPrograms(CERBOS, ({ cerbos: program }) => {
  const directory = mkdtempSync(join(tmpdir(), 'cerbos-'))
  let cerbos: ChildProcess
  let upstream: TestUpstream
  let gateway: TestGateway
  before(async () => {
    const [http, grpc] = [await freePort(), await freePort()]
    mkdirSync(join(directory, 'policies'))
    writeFileSync(join(directory, 'policies', 'route.yaml'), POLICY)
    const conf = join(directory, 'conf.yaml')
    const server = { httpListenAddr: `127.0.0.1:${http}`, grpcListenAddr: `127.0.0.1:${grpc}` }
    const storage = { driver: 'disk', disk: { directory: join(directory, 'policies') } }
    writeFileSync(conf, JSON.stringify({ server, storage, telemetry: { disabled: true } }))
    cerbos = spawn(program, ['server', '--config', conf], { stdio: 'ignore' })
    const origin = `http://127.0.0.1:${http}`
    await until(() =>
      call(`${origin}/_cerbos/health`).then(
        ({ status }) => status === 200 || undefined,
        () => undefined,
      ),
    )
    upstream = await startUpstream()
    const decision = { url: `${origin}/access/v1/evaluation`, timeoutMs: 10_000, body: ['/amount'] }
    gateway = await startGateway({
      config: {
        upstream: upstream.url,
        routes: ['/accounts/{iban}/payments', '/accounts/{iban}'].map((path) => ({
          path,
          auth: ['bearer'],
          decision,
        })),
      },
    })
  })
  after(async () => {
    await gateway?.end()
    upstream?.close()
    cerbos?.kill()
    rmSync(directory, { recursive: true })
  })

  it('decides by user, method and path template', async () => {
    for (const [sub, method, path, status] of [
      ['user-1', 'POST', '/accounts/DE1/payments', 200],
      ['user-2', 'POST', '/accounts/DE1/payments', 403],
      ['user-1', 'PUT', '/accounts/DE1/payments', 403],
      ['user-1', 'POST', '/accounts/DE1', 403],
    ] as const) {
      const authorization = `Bearer ${await upstream.issuer.token({ sub })}`
      const response = await call(gateway.url + path, {
        method,
        headers: { authorization },
        body: { amount: 1 },
      })
      assert.equal(response.status, status, `${sub} ${method} ${path} ${response.body}`)
    }
  })
})
