import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { Agent } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import * as client from 'openid-client'
import { freePort } from '../../backend/testing/free-port.ts'
import { sharedSecret } from '../runtime/startup/shared-addresses.ts'
import { NO_REDIS, type RedisServer, startRedis } from '../store/redis-server.test-support.ts'
import type { RunningProcess } from '../testing/running-process.ts'
import { run } from './child-process.ts'
import { type Call, call, type ReceivedResponse } from './client.ts'
import { tokensFor } from './oauth-client.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { createTestPostgres, NO_POSTGRES, type TestPostgres } from './test-postgres.ts'

const CONFIG = fileURLToPath(new URL('../../config/gateway.json', import.meta.url))
const USERS = ['alice@example.com', 'bob@example.com'] as const
/** Transfers of each user, all at the same time. */
const TRANSFERS = 100
const OPENING_MINOR = 3n * 1_000_00n

interface Session {
  readonly accessToken: string
  readonly refreshToken: string
}

describe('two backends on one database behind three gateways', { skip: NO_POSTGRES || NO_REDIS }, () => {
  const dir = mkdtempSync(join(tmpdir(), 'countersign-backends-'))
  const secret = sharedSecret({ GATEWAY_DATA_DIR: dir })
  const secretHeader = {
    'x-gateway-secret': readFileSync(secret.GATEWAY_UPSTREAM_SECRET_FILE, 'utf8').trim(),
  }
  /** Opens up to 8 connections to each gateway: together a few more than the backends have to the database. */
  const agent = new Agent({ keepAlive: true, maxSockets: 8 })
  const backends: { process: RunningProcess; readonly url: string }[] = []
  const gateways: TestGateway[] = []
  let postgres: TestPostgres
  let redis: RedisServer
  let issuer: string
  let sessions: Session[]
  let accounts: string[]

  const runBackend = (index: number, port: string) =>
    run('backend/main.ts', {
      ...secret,
      DATABASE_URL: postgres.url,
      BACKEND_DATA_DIR: join(dir, `backend-${index}`),
      BACKEND_PORT: port,
      PUBLIC_URL: issuer,
    })
  const isListening = ({ msg }: { msg?: string }) => msg?.startsWith('listening at ') === true

  async function startOne(port: string): Promise<TestGateway> {
    const gateway = await startGateway({
      // The deadline is long, because other tests keep the machine busy.
      config: { ...JSON.parse(readFileSync(CONFIG, 'utf8')), onStoreFailure: { deadlineMs: 5000 } },
      env: {
        ...secret,
        GATEWAY_UPSTREAM: backends.map(({ url }) => url).join(),
        GATEWAY_ISSUER: issuer,
        GATEWAY_STORE: `redis://127.0.0.1:${redis.port}`,
        GATEWAY_PORT: port,
      },
    })
    await until(async () => ((await call(`${gateway.adminUrl}/readyz`)).status === 200 ? true : undefined))
    return gateway
  }

  before(async () => {
    const port = await freePort()
    issuer = `http://127.0.0.1:${port}`
    ;[postgres, redis] = await Promise.all([createTestPostgres(), startRedis()])
    // One is killed and starts again, so nobody else may get its port meanwhile.
    const ports = [await freePort(), await freePort()]
    // Both start at the same time, on an empty database.
    const started = ports.map((each, index) => runBackend(index, String(each)))
    for (const process of started) {
      const line = await process.line(isListening)
      backends.push({ process, url: String(line.msg).replace('listening at ', '') })
    }
    gateways.push(...(await Promise.all([startOne(String(port)), startOne('0'), startOne('0')])))
    sessions = []
    for (const email of USERS) sessions.push((await login(gatewayAt(0), email)).json<Session>())
    accounts = await Promise.all(
      sessions.map(async (session) => {
        const { body } = await ask('/api/balance', session)
        return (JSON.parse(body) as { accountId: string }).accountId
      }),
    )
  })
  after(async () => {
    agent.destroy()
    await Promise.all(gateways.map((gateway) => gateway.end('SIGKILL')))
    await Promise.all(backends.map(({ process }) => process.end('SIGKILL')))
    await redis?.stop()
    await postgres?.close()
    rmSync(dir, { recursive: true, force: true })
  })

  let turn = 0
  const gatewayAt = (index: number) => (gateways[index % 3] as TestGateway).url
  const post = (url: string, body: object, headers: Call['headers'] = {}) =>
    call(url, { method: 'POST', body, headers, agent })
  const login = (base: string, email: string) =>
    post(`${base}/api/login`, { email, password: 'demo-password' }, secretHeader)
  const refresh = (base: string, refreshToken: string) =>
    post(`${base}/api/session/refresh`, { refreshToken }, secretHeader)

  /** Sends each request to the next gateway. */
  function ask(path: string, session: Session | undefined, options: Call = {}): Promise<ReceivedResponse> {
    const headers = { ...(session && { authorization: `Bearer ${session.accessToken}` }), ...options.headers }
    return call(gatewayAt(turn++) + path, { agent, ...options, headers })
  }

  function transfer(from: number, key: string): Promise<ReceivedResponse> {
    const body = { toAccountId: accounts[1 - from], amount: '0.01', currency: 'EUR' }
    return ask('/api/transfer', sessions[from], { method: 'POST', body, headers: { 'idempotency-key': key } })
  }

  async function assertBooksBalance(transfers: number): Promise<void> {
    const [books] = await postgres.query(`
      SELECT (SELECT sum(amount_minor) FROM ledger_entries)::text AS ledger,
             (SELECT sum(balance_minor) FROM accounts WHERE kind = 'customer')::text AS customers,
             (SELECT count(*) FROM transfers WHERE kind = 'transfer')::int AS transfers,
             (SELECT count(*) FROM accounts WHERE balance_minor <> (
                SELECT coalesce(sum(amount_minor), 0) FROM ledger_entries WHERE account_id = accounts.id))::int AS wrong`)
    assert.deepEqual(books, { ledger: '0', customers: String(OPENING_MINOR), transfers, wrong: 0 })
  }

  it('prepare the empty database once between them', async () => {
    const steps = backends.flatMap(({ process }) => process.lines.flatMap(({ applied }) => applied ?? []))
    const recorded = await postgres.query<{ name: string }>('SELECT name FROM migrations ORDER BY name')
    assert.deepEqual(
      steps.sort(),
      recorded.map(({ name }) => name),
    )
    const [made] = await postgres.query(`
      SELECT (SELECT count(*) FROM signing_keys)::int AS keys, (SELECT count(*) FROM users)::int AS users,
             (SELECT count(*) FROM accounts WHERE kind = 'equity')::int AS equity`)
    assert.deepEqual(made, { keys: 1, users: 3, equity: 1 })
    const [one, other] = await Promise.all(
      backends.map(({ url }) => call(`${url}/.well-known/jwks.json`, { headers: secretHeader })),
    )
    assert.equal(one?.body, other?.body)
    await assertBooksBalance(0)
  })

  it('continue a session of the other backend, and end it everywhere when an old token is used again', async () => {
    const [one, other] = backends.map(({ url }) => url) as [string, string]
    const first = (await login(one, 'alice@example.com')).json<Session>()
    const second = (await refresh(other, first.refreshToken)).json<Session>()
    const third = (await refresh(one, second.refreshToken)).json<Session>()
    for (let i = 0; i < 3; i++) assert.equal((await ask('/api/balance', third)).status, 200)
    // This gateway learns that the session has ended, and tells the others.
    assert.equal((await refresh(gatewayAt(1), second.refreshToken)).status, 401)
    await until(async () => {
      const statuses = await Promise.all([0, 1, 2].map(async () => (await ask('/api/balance', third)).status))
      return statuses.every((status) => status === 401) ? true : undefined
    })
    for (const url of [one, other]) assert.equal((await refresh(url, third.refreshToken)).status, 401)
  })

  it('exchange a refresh token once, however many copies come to both at the same time', async () => {
    const { refreshToken } = (await login(gatewayAt(0), 'alice@example.com')).json<Session>()
    const exchanges = await Promise.all(
      Array.from({ length: 16 }, (_, i) => refresh(backends[i % 2]?.url as string, refreshToken)),
    )
    assert.deepEqual(exchanges.map(({ status }) => status).sort(), [200, ...Array(15).fill(401)])
  })

  it('serve one authorization code flow together', async () => {
    const config = await client.discovery(new URL(issuer), 'mobile-app', undefined, client.None(), {
      execute: [client.allowInsecureRequests],
    })
    for (const pushed of [false, true, false, true]) {
      const tokens = await tokensFor(config, { pushed })
      const again = await client.refreshTokenGrant(config, String(tokens.refresh_token))
      assert.equal(
        (await ask('/api/balance', { accessToken: again.access_token, refreshToken: '' })).status,
        200,
      )
      await assert.rejects(client.refreshTokenGrant(config, String(tokens.refresh_token)), {
        error: 'invalid_grant',
      })
    }
    // Both backends must have had a part in the flows.
    for (const { url } of backends) {
      const { body } = await call(`${gateways[0]?.adminUrl}/metrics`)
      const served = body
        .split('\n')
        .filter((line) => line.startsWith('gateway_upstream_request_duration_seconds_count'))
      assert.ok(
        served.some((line) => line.includes(url) && Number(line.split(' ').at(-1)) > 5),
        served.join('\n'),
      )
    }
  })

  it('count failed sign-ins together', async () => {
    const attempt = (index: number) =>
      post(
        `${backends[index % 2]?.url}/api/login`,
        { email: 'bob@example.com', password: 'wrong' },
        { ...secretHeader, 'x-real-ip': '192.0.2.9' },
      )
    const statuses: number[] = []
    for (let i = 0; i < 8; i++) statuses.push((await attempt(i)).status)
    assert.deepEqual(statuses.slice(0, 5), Array(5).fill(401))
    assert.ok(statuses.slice(5).includes(429), String(statuses))
  })

  it('transfer once for each key, under load, whichever backend gets it and however often', async () => {
    const before = await postgres.query("SELECT 1 FROM transfers WHERE kind = 'transfer'")
    const keys = Array.from({ length: TRANSFERS * 2 }, () => randomUUID())
    const seen = await Promise.all(
      keys.map(async (key, index) => {
        // Sent twice at once, then once more, by other gateways and so to other backends too.
        const pair = await Promise.all([transfer(index % 2, key), transfer(index % 2, key)])
        return [...pair, await transfer(index % 2, key)]
      }),
    )
    for (const responses of seen) {
      const statuses = responses.map(({ status }) => status)
      assert.ok(
        statuses.every((status) => status === 201 || status === 409),
        JSON.stringify(responses.map(({ status, body }) => [status, body])),
      )
      assert.equal(statuses[2], 201)
      const made = new Set(responses.filter(({ status }) => status === 201).map(({ body }) => body))
      assert.equal(made.size, 1)
    }
    await assertBooksBalance(before.length + keys.length)
  })

  it('lose or repeat no transfer when one is killed under load, and the gateways use it again when it is back', async () => {
    const before = await postgres.query("SELECT 1 FROM transfers WHERE kind = 'transfer'")
    const [victim] = backends as [{ process: RunningProcess; readonly url: string }]
    let done = 0
    const failures: number[] = []
    const untilDone = async (from: number): Promise<void> => {
      const key = randomUUID()
      await until(async () => {
        const { status } = await transfer(from, key)
        if (status !== 201) failures.push(status)
        return status === 201 ? true : undefined
      })
      done++
    }
    const callers = Array.from({ length: 16 }, async (_, caller) => {
      for (let i = 0; i < 12; i++) await untilDone(caller % 2)
    })
    await until(() => (done >= 40 ? true : undefined))
    await victim.process.end('SIGKILL')
    // A gateway that starts now also serves, though it has never reached the killed backend.
    const late = await startOne('0')
    gateways.push(late)
    const session = (await login(late.url, 'alice@example.com')).json<Session>()
    const headers = { authorization: `Bearer ${session.accessToken}` }
    assert.equal((await call(`${late.url}/api/balance`, { headers })).status, 200)
    await Promise.all(callers)
    assert.ok(
      failures.every((status) => [409, 502, 503].includes(status)),
      String(failures),
    )
    await assertBooksBalance(before.length + 16 * 12)

    victim.process = runBackend(0, new URL(victim.url).port)
    await victim.process.line(isListening)
    const takenBack = `gateway_upstream_healthy{upstream="${victim.url}"}`
    await until(async () => {
      await Promise.all([0, 1, 2].map(() => ask('/api/data', sessions[1])))
      return (await gateways[0]?.metric(takenBack)) === 1 ? true : undefined
    })
    assert.equal((await login(victim.url, 'alice@example.com')).status, 200)
  })

  it('both publish the new key of a rotation that another process began', async () => {
    const rotation = run('backend/identity/rotate-keys.ts', { DATABASE_URL: postgres.url })
    assert.equal(await rotation.ended, 0)
    const kids = async (url: string) => {
      const { keys } = (await call(`${url}/.well-known/jwks.json`, { headers: secretHeader })).json<{
        keys: { kid: string }[]
      }>()
      return keys.map(({ kid }) => kid)
    }
    const [one, other] = backends.map(({ url }) => url) as [string, string]
    const both = await until(async () => {
      const seen = await Promise.all([kids(one), kids(other)])
      return seen.every(({ length }) => length === 2) ? seen : undefined
    }, 100_000)
    assert.deepEqual(both[0], both[1])
  })
})
