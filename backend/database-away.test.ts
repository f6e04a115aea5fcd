import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { Client } from 'pg'
import { type Database, DatabaseUnavailableError } from './database/database.ts'
import { migrate } from './database/migrations.ts'
import { openPostgres } from './database/postgres.ts'
import { openBehindProxy } from './testing/databases.ts'
import { pkce } from './testing/oauth.ts'
import { type BackendProcess, startBackendProcess } from './testing/process.ts'
import { startTestService, type TestResponse, type TestService, type TestUser } from './testing/service.ts'
import type { TcpProxy } from './testing/tcp-proxy.ts'

const NO_SERVER =
  process.env.TEST_DATABASE_URL === undefined &&
  'TEST_DATABASE_URL names no PostgreSQL server, such as postgres://postgres@127.0.0.1:5432/postgres (apt-get install postgresql)'
const STATEMENT_TIMEOUT_MS = 2000
const REDIRECT = 'https://app.example.com/callback'

if (NO_SERVER) it('a database that goes away, on PostgreSQL', { skip: NO_SERVER })
else describe('a database that goes away, on PostgreSQL', withServer)

function withServer(): void {
  let proxy: TcpProxy
  let drop: () => Promise<void>
  let database: Database
  let impatient: Database
  let service: TestService
  let user: TestUser
  before(async () => {
    const opened = await openBehindProxy()
    proxy = opened.proxy
    drop = opened.drop
    database = await openPostgres({ url: opened.url, onIdleFault: () => {} })
    impatient = await openPostgres({
      url: opened.url,
      onIdleFault: () => {},
      statementTimeoutMs: STATEMENT_TIMEOUT_MS,
      queueTimeoutMs: 50,
    })
    await migrate(database)
    const app = {
      client_id: 'mobile-app',
      token_endpoint_auth_method: 'none' as const,
      redirect_uris: [REDIRECT],
      grant_types: ['authorization_code', 'refresh_token'],
    }
    service = await startTestService(database, { clients: [app] })
    user = await service.addUser({ balanceMinor: 100n })
  })
  after(async () => {
    await service.app.close()
    await database.close()
    await impatient.close()
    await proxy.cut()
    await drop()
  })

  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  const balance = () => service.send({ url: '/api/balance', as: user, scope: 'accounts:read' })

  it('gives every request that needs it 503 with Retry-After, until it is back', async () => {
    assert.equal((await balance()).status, 200)
    await proxy.cut()
    for (const request of [
      { url: '/api/balance', as: user, scope: 'accounts:read' },
      { url: '/api/users', as: user, scope: 'users:admin' },
      { method: 'POST', url: '/api/login', payload: { email: user.email, password: 'x' } },
      { method: 'POST', url: '/api/session/refresh', payload: { refreshToken: 'x'.repeat(43) } },
      { url: '/readyz' },
    ] as const) {
      const { status, headers, body } = await service.send(request)
      assert.deepEqual([status, body.code], [503, 'database_unavailable'], request.url)
      assert.match(String(headers['retry-after']), /^\d+$/)
    }
    assert.equal((await service.send({ url: '/healthz' })).status, 200, 'a restart would not help')
    assert.equal((await service.send({ url: '/openapi.json' })).status, 200)
    await proxy.restore()
    assert.equal((await balance()).status, 200)
    assert.equal((await service.send({ url: '/readyz' })).status, 200)
  })

  it('gives OAuth clients and pages 503 or temporarily_unavailable', async () => {
    const { parameters } = await pkce({
      client_id: 'mobile-app',
      response_type: 'code',
      redirect_uri: REDIRECT,
    })
    const authorize = { url: `/oauth/authorize?${new URLSearchParams(parameters)}` }
    const begun = await service.send(authorize)
    const page = { url: String(begun.headers.location), headers: { cookie: cookiesOf(begun) } }
    assert.equal((await service.send(page)).status, 200)
    await proxy.cut()
    const payload = 'grant_type=refresh_token&refresh_token=x&client_id=mobile-app'
    const token = await service.send({ method: 'POST', url: '/oauth/token', payload, headers: form })
    assert.deepEqual([token.status, token.body.error], [503, 'temporarily_unavailable'])
    assert.match(String(token.headers['retry-after']), /^\d+$/)
    const back = new URL(String((await service.send(authorize)).headers.location))
    assert.deepEqual(
      [back.origin, back.searchParams.get('error')],
      [new URL(REDIRECT).origin, 'temporarily_unavailable'],
    )
    assert.equal((await service.send(page)).status, 503)
    await proxy.restore()
  })

  it('keeps nothing of a transaction during which it went away', async () => {
    const broken = database.transaction(async (transaction) => {
      await transaction.query("UPDATE users SET name = 'Half Done'")
      await proxy.cut()
      await transaction.query('SELECT 1')
    })
    await assert.rejects(broken, DatabaseUnavailableError)
    await proxy.restore()
    const rows = await database.query("SELECT 1 AS found FROM users WHERE name = 'Half Done'")
    assert.deepEqual(rows, [])
  })

  it('leaves the outcome unknown when the response to COMMIT is lost, and a key gets the stored response', async () => {
    const payer = await service.addUser({ balanceMinor: 100n })
    const payee = await service.addUser({ balanceMinor: 0n })
    const pay = (headers: Record<string, string>) =>
      service.send({
        method: 'POST',
        url: '/api/transfer',
        as: payer,
        scope: 'transfers:write',
        headers,
        payload: { toAccountId: payee.accountId, amount: '0.10', currency: 'EUR' },
      })
    const received = async () => {
      const { body } = await service.send({ url: '/api/balance', as: payee, scope: 'accounts:read' })
      return body.balance
    }
    const withKey = { 'idempotency-key': 'lost-commit' }
    for (const [headers, sum] of [
      [withKey, '0.10'],
      [{}, '0.20'],
    ] as const) {
      proxy.loseResponseTo('COMMIT')
      const { status, headers: answer, body } = await pay(headers)
      assert.deepEqual([status, body.code, answer['retry-after']], [503, 'outcome_unknown', undefined])
      assert.match(String(body.detail), /unknown whether it took effect/)
      assert.doesNotMatch(String(body.detail), /nothing/i)
      assert.equal(await received(), sum, 'the server has committed')
    }
    const again = await pay(withKey)
    assert.deepEqual([again.status, again.headers['idempotency-replayed']], [201, 'true'])
    assert.equal(await received(), '0.20', 'once for the key, once without one')
  })

  it('counts as away when it is silent, inside a transaction and outside', async () => {
    await impatient.query('SELECT 1')
    proxy.stall()
    await assert.rejects(impatient.query('SELECT 1'), DatabaseUnavailableError)
    const silent = impatient.transaction(async (transaction) => {
      proxy.stall()
      await transaction.query('SELECT 1')
    })
    await assert.rejects(silent, DatabaseUnavailableError)
    assert.deepEqual(await impatient.query('SELECT 1 AS one'), [{ one: 1 }], 'on a new connection')
  })

  it('does not make others wait for a backend that hangs while it is first in a queue', async () => {
    const [row] = await impatient.query<{ schema: string }>('SELECT current_schema() AS schema')
    const frozen = new Client({ connectionString: process.env.TEST_DATABASE_URL })
    await frozen.connect()
    try {
      await frozen.query('SELECT pg_advisory_lock(hashtextextended($1, 1))', [`${row?.schema}\nb`])
      const passed = await impatient.transaction(
        (transaction) => transaction.query("SELECT current_setting('lock_timeout') AS lock_timeout"),
        { queueBy: ['a', 'b', 'c'] },
      )
      assert.deepEqual(passed, [{ lock_timeout: '0' }], 'only the queue is left early')
    } finally {
      await frozen.end()
    }
  })

  it('counts as busy when a statement takes too long', async () => {
    const slow = impatient.query('SELECT pg_sleep(5)')
    await assert.rejects(slow, { name: 'DatabaseBusyError' })
  })

  it('lets a step of the schema take longer than the statements after it', async () => {
    const seconds = (STATEMENT_TIMEOUT_MS + 2500) / 1000
    await impatient.transaction(({ script }) => script(`SELECT pg_sleep(${seconds})`))
    await assert.rejects(impatient.query('SELECT pg_sleep(5)'), { name: 'DatabaseBusyError' })
  })

  it('lets a step of the schema wait for a lock no longer than a statement', {
    timeout: 60_000,
  }, async () => {
    const step = database.transaction(async (holder) => {
      await holder.query('LOCK TABLE idempotency_keys')
      await impatient.transaction(({ script }) => script('LOCK TABLE idempotency_keys'))
    })
    await assert.rejects(step, { name: 'DatabaseBusyError', message: /lock/ })
  })
}

describe('the start of a backend whose database is not there yet', () => {
  let backend: BackendProcess | undefined
  after(async () => {
    backend?.child.kill('SIGKILL')
    await backend?.ended
  })
  const waits = () => backend?.log.filter(({ msg }) => msg === 'waiting for the database') ?? []
  async function waiting(times: number): Promise<void> {
    while (waits().length < times) {
      assert.equal(backend?.child.exitCode, null, JSON.stringify(backend?.log))
      await pause(20)
    }
  }

  it('waits, says so without the password, and ends in good order when it is told to', async () => {
    const env = { DATABASE_URL: 'postgres://user:secret@127.0.0.1:1/none' }
    for (const end of ['SIGTERM', 'disconnect'] as const) {
      backend = startBackendProcess(env, { ipc: true })
      await waiting(2)
      if (end === 'SIGTERM') backend.child.kill('SIGTERM')
      else backend.child.disconnect()
      assert.equal(await backend.ended, 0)
      assert.equal(backend.log.at(-1)?.msg, 'stopped')
      assert.match(String(waits()[0]?.cause), /ECONNREFUSED/)
      assert.doesNotMatch(JSON.stringify(backend.log), /secret/)
    }
  })

  it('does not wait for the deletion of expired rows', { skip: NO_SERVER }, async (t) => {
    const { url, proxy, drop } = await openBehindProxy()
    t.after(async () => {
      await proxy.cut()
      await drop()
    })
    const prepared = await openPostgres({ url, onIdleFault: () => {} })
    await migrate(prepared)
    await prepared.close()
    const holder = new Client({ connectionString: url })
    await holder.connect()
    await holder.query('BEGIN')
    try {
      await holder.query('LOCK TABLE idempotency_keys')
      backend = startBackendProcess({ DATABASE_URL: url, BACKEND_DEMO: 'false' })
      await backend.listening
    } finally {
      await holder.end()
    }
    backend.child.kill('SIGTERM')
    assert.equal(await backend.ended, 0)
    assert.equal(backend.log.at(-1)?.msg, 'stopped')
  })

  it('serves as soon as the database is there', { skip: NO_SERVER }, async () => {
    const { url, proxy, drop } = await openBehindProxy({ isCut: true })
    backend = startBackendProcess({ DATABASE_URL: url })
    await waiting(2)
    await proxy.restore()
    const listening = await backend.listening
    assert.equal((await fetch(`${listening}/readyz`)).status, 200)
    backend.child.kill('SIGTERM')
    assert.equal(await backend.ended, 0)
    await proxy.cut()
    await drop()
  })
})

function cookiesOf({ headers }: TestResponse): string {
  return [headers['set-cookie']]
    .flat()
    .map((line) => String(line).split(';')[0])
    .join('; ')
}
