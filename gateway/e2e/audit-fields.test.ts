import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { AuditRecord } from '../testing/audit-file.ts'
import { call } from './client.ts'
import { skipWithout } from './other-programs.ts'
import { type GatewayOptions, startGateway, type TestGateway, until } from './running-gateway.ts'
import { type SeenRequest, startUpstream, type TestUpstream } from './test-upstream.ts'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const HEADER = 'x-fapi-interaction-id'
const OWN = 'c770aef3-6784-41f7-8e0e-ff5f97bddb3a'
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const CHRONY = '0A000001,10.0.0.1,3,1700000000.1,-0.0015,0.0,0.0,-1.2,0.0,0.0,0.01,0.001,64.0,Normal'

describe('optional members of the audit records', () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  let options: GatewayOptions
  const programs = mkdtempSync(join(tmpdir(), 'programs-'))
  const config = {
    interactionId: true,
    routes: [
      { path: '/open', auth: ['none'] },
      { path: '/mine', auth: ['bearer'] },
    ],
  }

  before(async () => {
    writeFileSync(join(programs, 'chronyc'), `#!/bin/sh\necho '${CHRONY}'\n`, { mode: 0o755 })
    upstream = await startUpstream((req, res) => {
      // The service sends an interaction id of its own.
      res.setHeader(HEADER, 'of-the-service')
      res.end(JSON.stringify({ headers: req.headers }))
    })
    options = {
      config,
      env: { GATEWAY_UPSTREAM: upstream.url, PATH: `${programs}:${process.env.PATH}` },
    }
    gateway = await startGateway(options)
  })
  after(async () => {
    await gateway?.end()
    upstream?.close()
    rmSync(programs, { recursive: true })
  })

  /** Sends a request. @returns what the client and the service got, and the record of the response */
  async function ask(path: string, headers: Record<string, string>) {
    const requestId = crypto.randomUUID()
    const response = await call(gateway.url + path, { headers: { 'x-request-id': requestId, ...headers } })
    const [request, answered] = await gateway.pair(requestId)
    assert.deepEqual(
      Object.keys(answered).filter((key) => key !== 'statusCode' && key !== 'duration'),
      Object.keys(request),
    )
    const sent = response.status === 200 ? (JSON.parse(response.body) as SeenRequest).headers : undefined
    return { response, sent, record: answered }
  }
  const sessionOf = async (sid: string) => {
    const token = await upstream.issuer.token({ sid })
    return (await ask('/mine', { authorization: `Bearer ${token}` })).record.sessionId
  }

  it('a good interaction id of the client is sent on, returned and recorded; else the gateway makes one', async () => {
    const kept = await ask('/open', { [HEADER]: OWN })
    assert.deepEqual(
      [kept.response.headers[HEADER], kept.sent?.[HEADER], kept.record.interactionId],
      [OWN, OWN, OWN],
    )
    for (const headers of [{}, { [HEADER]: 'x' }, { [HEADER]: `${OWN}, ${OWN}` }]) {
      const made = await ask('/open', headers)
      const id = String(made.record.interactionId)
      assert.match(id, UUID)
      assert.deepEqual([made.response.headers[HEADER], made.sent?.[HEADER]], [id, id])
    }
    const refused = await ask('/mine', { [HEADER]: OWN })
    assert.deepEqual([refused.response.status, refused.response.headers[HEADER]], [401, OWN])
  })

  it('the trace that a request is part of is recorded, also for a refusal', async () => {
    const traceparent = `00-${TRACE}-00f067aa0ba902b7-00`
    assert.equal((await ask('/open', { traceparent })).record.traceId, TRACE)
    assert.equal((await ask('/mine', { traceparent })).record.traceId, TRACE)
    assert.equal((await ask('/open', { traceparent: 'x' })).record.traceId, undefined)
    // Connection names the header, so the gateway neither records the trace nor passes it on.
    const named = await ask('/open', { traceparent, Connection: 'close, TraceParent' })
    assert.equal(named.record.traceId, undefined)
    assert.ok(!named.sent?.traceparent?.toString().includes(TRACE))
  })

  it('the gateway reads a credential or an id that Connection names, and passes only the id on', async () => {
    const authorization = `Bearer ${await upstream.issuer.token({})}`
    const own = { [HEADER]: OWN, 'x-request-id': 'named-1', Authorization: authorization }
    const Connection = ['close', ...Object.keys(own), 'DPoP', 'Idempotency-Key'].join(', ')
    const response = await call(`${gateway.url}/mine`, {
      headers: { ...own, Connection, 'Idempotency-Key': 'once' },
    })
    const sent = (JSON.parse(response.body) as SeenRequest).headers
    assert.deepEqual(
      [sent.authorization, sent['idempotency-key'], sent['x-auth-subject']],
      [undefined, undefined, 'user-1'],
    )
    const [record] = await gateway.pair('named-1')
    assert.equal(record.userId, 'user-1')
    for (const [name, value] of [
      ['x-request-id', 'named-1'],
      [HEADER, OWN],
    ] as const)
      assert.deepEqual([response.headers[name], sent[name]], [value, value])
    const guessed = await ask('/mine', { authorization: 'Bearer x', Connection: 'close, Authorization' })
    assert.equal(guessed.response.status, 401)
  })

  it('a user and a client of any name are percent-encoded alike in the trail and for the service', async () => {
    const token = await upstream.issuer.token({ sub: 'Zoë 100%', client_id: 'müller & co' })
    const { sent, record } = await ask('/mine', { authorization: `Bearer ${token}` })
    const [user, client] = ['Zo%C3%AB%20100%25', 'm%C3%BCller%20&%20co']
    assert.deepEqual([sent?.['x-auth-subject'], sent?.['x-auth-client']], [user, client])
    assert.deepEqual([record.userId, record.clientId], [user, client])
    const machine = await upstream.issuer.token({ sub: 'müller & co', client_id: 'müller & co' })
    const ofMachine = await ask('/mine', { authorization: `Bearer ${machine}` })
    assert.deepEqual([ofMachine.record.userId, ofMachine.record.clientId], [undefined, client])
  })

  it('the first record of a run says how far the clock is off, and who said so', async () => {
    const [start] = await until(async () => {
      const records = gateway.audit()
      if (records[0]?.clockSource !== undefined) return records
      // The start waits half a second for chronyc, and a busy machine may need longer to start it.
      await gateway.end()
      gateway = await startGateway(options)
      return undefined
    })
    assert.deepEqual([start?.clockOffsetMs, start?.clockSource], [-1.5, 'chronyc'])
  })

  it('all records of a session have one name, and openssl makes the same name of its id and the key', {
    skip: skipWithout('openssl'),
  }, async () => {
    const one = String(await sessionOf('session-a'))
    assert.match(one, /^[A-Za-z0-9_-]{22}$/)
    assert.equal(await sessionOf('session-a'), one)
    assert.notEqual(await sessionOf('session-b'), one)
    const key = join(gateway.dir, 'data', 'audit-session-key')
    assert.equal(statSync(key).mode & 0o777, 0o600)
    const script = `printf %s session-a | openssl dgst -sha256 -hmac "$(cat '${key}')" -binary | base64 | tr '+/' '-_' | cut -c1-22`
    assert.equal(execFileSync('/bin/sh', ['-c', script], { encoding: 'utf8' }).trim(), one)
    assert.equal(JSON.stringify(gateway.audit()).includes('session-a'), false)
  })

  it('a session keeps its name after a restart', async () => {
    const before = await sessionOf('session-a')
    await gateway.end()
    gateway = await startGateway({ ...options, dir: gateway.dir })
    assert.equal(await sessionOf('session-a'), before)
  })

  it('a change says who wrote the file and when; without interactionId the header is left alone', async () => {
    const file = join(gateway.dir, 'gateway.json')
    writeFileSync(file, JSON.stringify({ ...config, interactionId: false }))
    const change: AuditRecord = await until(() =>
      gateway.audit().find(({ type }) => type === 'CONFIG_CHANGE'),
    )
    const { uid, mtime } = statSync(file)
    const { owner, modified, before, after } = change as AuditRecord & { owner: { uid: number } }
    assert.deepEqual([owner.uid, modified], [uid, mtime.toISOString()])
    assert.deepEqual([before, after], [[{ interactionId: true }], [{ interactionId: false }]])
    const plain = await until(async () => {
      const asked = await ask('/open', { [HEADER]: 'x' })
      return asked.record.interactionId === undefined ? asked : undefined
    })
    assert.deepEqual([plain.response.headers[HEADER], plain.sent?.[HEADER]], ['of-the-service', 'x'])
  })
})
