import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { createServer } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { run } from './child-process.ts'
import { call, type ReceivedResponse } from './client.ts'
import {
  commonGateway,
  type GatewayOptions,
  startGateway,
  type TestGateway,
  until,
} from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const LOGIN = { path: '/api/login', limit: 5, window: '1m', purpose: 'Slows down the guessing of passwords' }
const ROWS = [
  LOGIN,
  { path: '/burst', limit: 7, window: '1h', purpose: 'tests' },
  { path: '/dear', limit: 12, window: '1h', purpose: 'tests', cost: 5 },
  {
    path: '/several',
    windows: [
      { limit: 2, window: '1h' },
      { limit: 3, window: '1d' },
    ],
    purpose: 'tests',
  },
  { path: '/brief', limit: 2, window: '2s', purpose: 'tests' },
  { path: '/account', limit: 3, window: '1h', purpose: 'tests' },
  { path: '/by-address', limit: 2, window: '1h', purpose: 'tests', per: 'address' },
  { path: '/by-app', limit: 20, window: '1h', purpose: 'tests', per: 'client' },
  { path: '/by-both', limit: 20, window: '1h', purpose: 'tests', per: 'client+user' },
  { path: '/methods', methods: ['GET'], limit: 1, window: '1h', purpose: 'tests', name: 'reading' },
  { path: '/methods', methods: ['POST'], limit: 2, window: '1h', purpose: 'tests', name: 'writing' },
  { path: '/shadow', limit: 1, window: '1h', purpose: 'tests', mode: 'shadow' },
  { path: '/tree/*', limit: 2, window: '1h', purpose: 'tests' },
  { path: '/tree/own', limit: 1, window: '1h', purpose: 'tests' },
  { path: '/spelt/login', limit: 5, window: '1h', purpose: 'tests', name: 'spelt' },
]

/** Calls the gateway for a client behind a trusted proxy. This test is the proxy. */
type Ask = (
  path: string,
  from: string,
  more?: { method?: string; token?: string },
) => Promise<ReceivedResponse>

function asker(gateway: () => TestGateway): Ask {
  return (path, from, { method = 'GET', token } = {}) =>
    call(gateway().url + path, {
      method,
      headers: { 'x-forwarded-for': from, ...(token ? { authorization: `Bearer ${token}` } : {}) },
    })
}

async function statuses(count: number, ask: () => Promise<ReceivedResponse>): Promise<number[]> {
  const seen: number[] = []
  for (let i = 0; i < count; i++) seen.push((await ask()).status)
  return seen
}

describe('a limit', () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  const ask = asker(() => gateway)
  const token = (sub: string) => upstream.issuer.token({ sub })

  before(async () => {
    upstream = await startUpstream()
    gateway = await commonGateway({
      config: {
        upstream: upstream.url,
        trustedProxies: ['127.0.0.1'],
        routes: [
          { path: '/*', auth: ['none'] },
          { path: '/account', auth: ['bearer'], scopes: ['accounts:read'] },
          { path: '/by-address', auth: ['bearer'] },
          { path: '/by-app', auth: ['bearer'] },
          { path: '/by-both', auth: ['bearer'] },
        ],
      },
      limits: ROWS,
    })
  })
  after(() => upstream.close())

  it('refuses the sixth login in a minute with 429, a Retry-After and the purpose', async () => {
    const first = await ask('/api/login', '198.51.100.1', { method: 'POST' })
    assert.equal(first.status, 200)
    assert.equal(first.headers['ratelimit-policy'], '"login";q=5;w=60')
    assert.equal(first.headers.ratelimit, '"login";r=4;t=60')
    assert.equal(first.headers['retry-after'], undefined)
    const login = () => ask('/api/login', '198.51.100.1', { method: 'POST' })
    assert.deepEqual(await statuses(4, login), [200, 200, 200, 200])
    const sixth = await login()
    assert.equal(sixth.status, 429)
    const reset = /^"login";r=0;t=(\d+)$/.exec(String(sixth.headers.ratelimit))?.[1]
    assert.equal(sixth.headers['retry-after'], reset)
    assert.ok(Number(reset) >= 50 && Number(reset) <= 60, String(reset))
    assert.equal(sixth.headers['ratelimit-policy'], '"login";q=5;w=60')
    const problem = sixth.json()
    assert.equal(problem.code, 'limit_exceeded')
    assert.match(String(problem.detail), /Slows down the guessing of passwords/)
    const other = await ask('/api/login', '198.51.100.2', { method: 'POST' })
    assert.equal(other.status, 200)
    const decisions = (decision: string) =>
      gateway.metric(`gateway_rate_limit_decisions_total{limit="login",decision="${decision}"}`)
    assert.deepEqual([await decisions('allowed'), await decisions('refused')], [6, 1])
  })

  it('of 7 lets exactly 7 of 50 simultaneous requests through', async () => {
    const responses = await Promise.all(Array.from({ length: 50 }, () => ask('/burst', '198.51.100.3')))
    const passed = responses.filter(({ status }) => status === 200)
    assert.equal(passed.length, 7)
    assert.equal(responses.filter(({ status }) => status === 429).length, 43)
    const left = passed.map(({ headers }) => /r=(\d+)/.exec(String(headers.ratelimit))?.[1])
    assert.deepEqual(left.sort(), ['0', '1', '2', '3', '4', '5', '6'])
    assert.equal(upstream.seen.filter(({ url }) => url === '/burst').length, 7)
  })

  it('counts as many hits for a request as its cost says', async () => {
    const dear = () => ask('/dear', '198.51.100.78')
    assert.equal((await dear()).headers.ratelimit, '"dear";r=7;t=3600')
    assert.deepEqual(await statuses(2, dear), [200, 429])
    assert.match(String((await dear()).headers['retry-after']), /^3\d\d\d$/)
  })

  it('of several windows names each in its headers, and in a refusal those that refuse', async () => {
    const several = () => ask('/several', '198.51.100.77')
    const first = await several()
    assert.equal(first.headers['ratelimit-policy'], '"several-1h";q=2;w=3600, "several-1d";q=3;w=86400')
    assert.equal(first.headers.ratelimit, '"several-1h";r=1;t=3600, "several-1d";r=2;t=86400')
    assert.deepEqual(await statuses(4, several), [200, 429, 429, 429])
    const refused = await several()
    assert.match(
      String(refused.headers.ratelimit),
      /^"several-1h";r=0;t=3\d\d\d, "several-1d";r=1;t=86\d\d\d$/,
    )
    assert.match(String(refused.headers['retry-after']), /^3\d\d\d$/)
    const { code, detail, 'violated-policies': violated } = refused.json()
    assert.deepEqual([code, violated], ['limit_exceeded', ['several-1h']])
    assert.equal(detail, 'At most 2 requests in 1h: tests')
    const decisions = (name: string, decision: string) =>
      gateway.metric(`gateway_rate_limit_decisions_total{limit="${name}",decision="${decision}"}`)
    assert.deepEqual(
      [await decisions('several-1h', 'allowed'), await decisions('several-1h', 'refused')],
      [2, 4],
    )
    assert.equal(await decisions('several-1d', 'allowed'), 2)
  })

  it('is not used up by requests that it refuses, nor by requests refused before it', async () => {
    const [alice, stranger] = [await token('alice'), await upstream.issuer.token({ scope: 'other' })]
    for (const bad of [undefined, 'x.y.z', stranger]) {
      const responses = await statuses(4, () =>
        ask('/account', '198.51.100.4', bad === undefined ? {} : { token: bad }),
      )
      assert.deepEqual(responses, Array(4).fill(bad === stranger ? 403 : 401))
    }
    const mine = () => ask('/account', '198.51.100.4', { token: alice })
    assert.deepEqual(await statuses(4, mine), [200, 200, 200, 429])
  })

  it('lets a request through when its oldest hit has left the window, whatever came meanwhile', async () => {
    let refused = 0
    // Tries another caller if a busy machine let this one ask too seldom.
    for (let caller = 1; refused <= 10; caller++) {
      const brief = () => ask('/brief', `198.51.101.${caller}`)
      const startedAt = performance.now()
      assert.deepEqual(await statuses(2, brief), [200, 200])
      refused = 0
      await until(async () => {
        const { status, headers } = await brief()
        if (status === 200) return true
        refused++
        assert.ok(Number(headers['retry-after']) >= 1)
        return undefined
      })
      assert.ok(performance.now() - startedAt >= 2000)
    }
  })

  it('counts by principal, whatever the address, and by address only where it says so', async () => {
    const [bob, bobAgain, carol] = [await token('bob'), await token('bob'), await token('carol')]
    const at = (address: string, bearer: string) => ask('/account', address, { token: bearer })
    assert.equal((await at('198.51.100.6', bob)).status, 200)
    assert.equal((await at('198.51.100.7', bobAgain)).status, 200)
    assert.match(String((await at('198.51.100.6', bob)).headers.ratelimit), /^"account";r=0;t=3(600|5\d\d)$/)
    assert.equal((await at('198.51.100.8', bobAgain)).status, 429)
    assert.equal((await at('198.51.100.6', carol)).status, 200)
    const fromOne = (bearer: string) => ask('/by-address', '198.51.100.9', { token: bearer })
    assert.equal((await fromOne(bob)).status, 200)
    assert.equal((await fromOne(carol)).status, 200)
    assert.equal((await fromOne(bobAgain)).status, 429)
    assert.equal((await ask('/by-address', '198.51.100.10', { token: bob })).status, 200)
  })

  it('counts the user of each app, or the app of all users, where it says so', async () => {
    const through = async (sub: string, app: string) => upstream.issuer.token({ sub, client_id: app })
    const [first, second] = [await through('alice', 'tpp-1'), await through('alice', 'tpp-2')]
    const bob = await through('bob', 'tpp-1')
    const at = (path: string, bearer: string) => ask(path, '198.51.100.15', { token: bearer })
    const usedUp = [...Array(20).fill(200), 429]
    assert.deepEqual(await statuses(21, () => at('/by-both', first)), usedUp)
    assert.deepEqual(await statuses(21, () => at('/by-both', second)), usedUp)
    assert.equal((await at('/by-both', bob)).status, 200)
    assert.deepEqual(await statuses(21, () => at('/by-app', first)), usedUp)
    assert.equal((await at('/by-app', bob)).status, 429)
    assert.equal((await at('/by-app', second)).status, 200)
  })

  it('counts IPv6 callers by their /64, and a mapped IPv4 address as that address', async () => {
    const from = (address: string) => ask('/tree/six', address)
    assert.equal((await from('2001:db8:0:1::1')).status, 200)
    assert.equal((await from('2001:db8::1:ffff:0:0:2')).status, 200)
    assert.equal((await from('2001:db8:0:1:9:9:9:9')).status, 429)
    assert.equal((await from('2001:db8:0:2::1')).status, 200)
    assert.deepEqual(await statuses(2, () => from('203.0.113.1')), [200, 200])
    assert.equal((await from('::ffff:203.0.113.1')).status, 429)
    assert.equal((await from('::ffff:cb00:7101')).status, 429)
  })

  it('counts its methods only, and HEAD with GET', async () => {
    const by = (method: string) => ask('/methods', '198.51.100.11', { method })
    assert.equal((await by('HEAD')).status, 200)
    assert.equal((await by('GET')).status, 429)
    assert.deepEqual(await statuses(3, () => by('POST')), [200, 200, 429])
    assert.equal((await by('DELETE')).headers.ratelimit, undefined)
  })

  it('in shadow mode counts and has metrics, but refuses nothing and sends no headers', async () => {
    const responses = [await ask('/shadow', '198.51.100.12'), await ask('/shadow', '198.51.100.12')]
    for (const { status, headers } of responses)
      assert.deepEqual([status, headers.ratelimit], [200, undefined])
    const shadow = 'gateway_rate_limit_decisions_total{limit="shadow",decision="shadow_refused"}'
    assert.equal(await gateway.metric(shadow), 1)
  })

  it('of a prefix counts every path below it, except paths with their own row', async () => {
    const at = (path: string) => ask(path, '198.51.100.13')
    assert.deepEqual(await statuses(2, () => at('/tree/own')), [200, 429])
    assert.equal((await at('/tree/a')).status, 200)
    assert.equal((await at('/tree/b/c')).status, 200)
    assert.equal((await at('/tree/d')).status, 429)
  })

  it('counts together every spelling that an upstream may take for the path', async () => {
    const spellings = ['/spelt/login', '/Spelt/LOGIN', '/spelt/login/', '//spelt/./login', '/spelt/%6Cogin']
    for (const path of spellings) {
      const { status, headers } = await ask(path, '198.51.100.14')
      assert.deepEqual([path, status, headers['ratelimit-policy']], [path, 200, '"spelt";q=5;w=3600'])
    }
    for (const path of [...spellings, '/API/../SPELT/login?x=1']) {
      assert.equal((await ask(path, '198.51.100.14')).status, 429, path)
    }
  })
})

describe('counts', () => {
  let upstream: TestUpstream
  let options: GatewayOptions
  let gateway: TestGateway
  const token = () => upstream.issuer.token()

  before(async () => {
    upstream = await startUpstream()
    options = {
      config: {
        upstream: upstream.url,
        routes: [
          { path: '/*', auth: ['none'] },
          { path: '/api/verify', methods: ['POST'], auth: ['bearer'] },
        ],
      },
      limits: [
        { path: '/api/verify', limit: 3, window: '1d', purpose: 'tests' },
        { path: '/minute', limit: 3, window: '10m', purpose: 'tests' },
        { path: '/hour', limit: 200, window: '1h', purpose: 'tests' },
      ],
    }
    gateway = await startGateway(options)
  })
  after(async () => {
    await gateway.end()
    upstream.close()
  })

  const again = async () => {
    gateway = await startGateway({ ...options, dir: gateway.dir })
  }
  const verify = async (bearer: string) =>
    (
      await call(`${gateway.url}/api/verify`, {
        method: 'POST',
        headers: { authorization: `Bearer ${bearer}` },
      })
    ).status

  it('of windows of an hour or more survive kill -9: the third call passes, the fourth gets 429', async () => {
    const bearer = await token()
    assert.deepEqual([await verify(bearer), await verify(bearer)], [200, 200])
    assert.equal(await gateway.end('SIGKILL'), 'SIGKILL')
    await again()
    assert.deepEqual([await verify(bearer), await verify(bearer)], [200, 429])
  })

  it('let no more through than the limit when kill -9 comes under load', async () => {
    const load = async (killAfter: number) => {
      const agent = new Agent({ keepAlive: true })
      let passed = 0
      const knock = async () => {
        for (;;) {
          const { status } = await call(`${gateway.url}/hour`, { agent })
          if (status === 429) return
          assert.equal(status, 200)
          passed++
          if (passed === killAfter) gateway.process.child.kill('SIGKILL')
        }
      }
      await Promise.allSettled(Array.from({ length: 8 }, knock))
      agent.destroy()
      return passed
    }
    const first = await load(80)
    await gateway.process.ended
    assert.ok(first >= 80 && first < 200, String(first))
    await again()
    const second = await load(Number.POSITIVE_INFINITY)
    // Requests that were counted but got no response cost their hits, so fewer may pass.
    assert.ok(first + second <= 200, `${first} + ${second}`)
    assert.ok(first + second >= 200 - 8, `${first} + ${second}`)
    assert.ok(upstream.seen.filter(({ url }) => url === '/hour').length <= 200)
  })

  it('of every window survive a stop, and a start that fails because its port is taken', async () => {
    const minute = async () => (await call(`${gateway.url}/minute`)).status
    assert.deepEqual([await minute(), await minute()], [200, 200])
    assert.equal(await gateway.end('SIGTERM'), 0)
    const taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    const { port } = taken.address() as { port: number }
    const failed = run('gateway/main.ts', {
      GATEWAY_CONFIG: `${gateway.dir}/gateway.json`,
      GATEWAY_LIMITS: gateway.limitsFile,
      GATEWAY_AUDIT_FILE: gateway.auditFile,
      GATEWAY_DATA_DIR: `${gateway.dir}/data`,
      GATEWAY_PORT: String(port),
      GATEWAY_ADMIN_PORT: '0',
    })
    assert.equal(await failed.ended, 1)
    taken.close()
    await again()
    assert.deepEqual([await minute(), await minute()], [200, 429])
  })

  it('use the address of the connection when there is no trusted proxy', async () => {
    const { headers } = await call(`${gateway.url}/minute`, { headers: { 'x-forwarded-for': '192.0.2.77' } })
    assert.match(String(headers.ratelimit), /^"minute";r=0;/)
  })
})

describe('a plan', () => {
  it('needs both files: an edit of one waits for the other, when a plan comes or goes', async () => {
    const upstream = await startUpstream()
    const gateway = await commonGateway({
      config: { upstream: upstream.url, routes: [{ path: '/*', auth: ['bearer'] }] },
    })
    const write = (file: string, content: object) => writeFileSync(file, JSON.stringify(content))
    const { limitsFile, clientsFile } = gateway
    const limits = [{ path: '/*', limit: 2, window: '1h', purpose: 'tests', per: 'client' }]
    const bearer = await upstream.issuer.token({ client_id: 'app' })
    const policy = async () => {
      const { headers } = await call(gateway.url, { headers: { authorization: `Bearer ${bearer}` } })
      return String(headers['ratelimit-policy'])
    }
    const isFaulty = async (file: string) =>
      (await gateway.metric(`gateway_config_last_reload_successful{file="${file}"}`)) === 0 || undefined
    const isInForce = async (quota: number) => (await policy()) === `"all";q=${quota};w=3600` || undefined
    try {
      write(clientsFile, { clients: [{ id: 'app', plan: 'gold' }] })
      await until(() => isFaulty('clients.json'))
      write(limitsFile, { limits, plans: { gold: { factor: 500 } } })
      await until(() => isInForce(1000))
      write(limitsFile, { limits, plans: { gold: { factor: 1.5 } } })
      await until(() => isInForce(3))
      const refused = await call(gateway.url, { headers: { authorization: `Bearer ${bearer}` } })
      assert.deepEqual([refused.status, refused.json()['violated-policies']], [429, ['all']])
      write(limitsFile, { limits })
      await until(() => isFaulty('limits.json'))
      assert.equal(await policy(), '"all";q=3;w=3600')
      write(clientsFile, { clients: [] })
      await until(() => isInForce(2))
      const quota = { path: '/*', limit: 1, window: '1d', purpose: 'a quota', per: 'user', name: 'quota' }
      write(limitsFile, { limits, overall: [quota] })
      await until(async () => (await policy()).includes('"quota";q=1;w=86400') || undefined)
      const both = await call(`${gateway.url}/`, { headers: { authorization: `Bearer ${bearer}` } })
      assert.match(String(both.headers.ratelimit), /^"all";r=0;t=\d+, "quota";r=1;t=86400$/)
      assert.deepEqual(both.json()['violated-policies'], ['all'])
    } finally {
      upstream.close()
    }
  })
})
