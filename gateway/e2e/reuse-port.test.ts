import assert from 'node:assert/strict'
import { Agent } from 'node:http'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { freePort } from '../../backend/testing/free-port.ts'
import { countersign } from '../cli/program.test-support.ts'
import { askRestart } from '../runtime/restart/control-socket.ts'
import { NO_REDIS, type RedisServer, startRedis } from '../store/redis-server.test-support.ts'
import { placesIn } from '../testing/configuration-files.ts'
import { contradicted, unpaired } from './audit-pairs.ts'
import { run } from './child-process.ts'
import { call } from './client.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const SKIP =
  process.platform === 'linux' ? NO_REDIS : 'NOT TESTED: only Linux distributes connections among gateways'
const CONNECTIONS = 32
const LIMIT = 100
/** Each test uses its own limit, which no other test uses up. */
const LIMITED = ['/first', '/restart', '/kill-0', '/kill-1', '/after-0', '/after-1']

describe('two gateways on one port', { skip: SKIP }, () => {
  let redis: RedisServer
  let upstream: TestUpstream
  let port: number
  let url: string
  const gateways: TestGateway[] = []
  const allowed = new Map<string, number>()

  const shared = () => ({
    GATEWAY_STORE: `redis://127.0.0.1:${redis.port}`,
    GATEWAY_REUSE_PORT: 'true',
    GATEWAY_PORT: String(port),
  })
  const start = (dir?: string) =>
    startGateway({
      config: {
        upstream: upstream.url,
        routes: [{ path: '/*', auth: ['none'] }],
        onStoreFailure: { deadlineMs: 10_000 },
      },
      limits: LIMITED.map((path) => ({ path, limit: LIMIT, window: '1h', purpose: 'a test' })),
      env: { ...shared(), GATEWAY_AUDIT_SEALS: 'on' },
      ...(dir !== undefined && { dir }),
    })

  before(async () => {
    redis = await startRedis()
    port = await freePort()
    url = `http://127.0.0.1:${port}`
    upstream = await startUpstream((req, res) => {
      const { url: path = '' } = req
      allowed.set(path, (allowed.get(path) ?? 0) + 1)
      setTimeout(() => res.end('whole'), 2 * Math.random())
    })
    gateways.push(await start(), await start())
  })
  after(async () => {
    for (const gateway of gateways) gateway.kill()
    upstream?.close()
    await redis?.stop()
  })

  /** Sends requests, each on a new connection. @returns the statuses */
  const askOnNew = (path: string, count: number) =>
    Promise.all(Array.from({ length: count }, async () => (await call(url + path)).status))

  const writerOf = (gateway: TestGateway) =>
    Number(gateway.audit().findLast(({ type }) => type === 'AUDIT_START')?.pid)

  const countOf = async (gateway: TestGateway) => {
    const { body } = await call(`${gateway.adminUrl}/metrics`)
    const counts = [...body.matchAll(/^gateway_http_requests_total\{.*\} (\d+)$/gm)]
    return counts.reduce((sum, [, count]) => sum + Number(count), 0)
  }

  /** Sends requests on kept connections, half of them to `limited`, until `end`. */
  function startLoad(limited: string) {
    const statusOf = new Map<string, number>()
    const broken: string[] = []
    const refused = () => [...statusOf.values()].filter((status) => status === 429).length
    let isOver = false
    const loads = Array.from({ length: CONNECTIONS }, async (_, connection) => {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 })
      for (let n = 0; !isOver; n++) {
        const id = `${limited.slice(1)}-${connection}-${n}`
        const headers = { 'x-request-id': id }
        const path = n % 2 === 0 ? limited : '/free'
        const response = await call(url + path, { headers, agent }).catch(() => undefined)
        if (response === undefined) broken.push(id)
        else statusOf.set(id, response.status)
      }
      agent.destroy()
    })
    const end = async () => {
      isOver = true
      await Promise.all(loads)
    }
    return { statusOf, broken, refused, end }
  }

  it('both get connections, each has its own metrics, and together they let exactly the limit through', async () => {
    const statuses = await askOnNew('/first', 2 * LIMIT)
    assert.equal(statuses.filter((status) => status === 200).length, LIMIT)
    assert.equal(statuses.filter((status) => status === 429).length, LIMIT)
    const counts = await Promise.all(gateways.map(countOf))
    assert.ok(Math.min(...counts) > 0, counts.join())
    assert.equal(counts[0]! + counts[1]!, 2 * LIMIT)
    for (const gateway of gateways) {
      const requests = gateway.audit().filter(({ type }) => type === 'API_REQUEST').length
      assert.equal(requests, await countOf(gateway))
    }
  })

  for (const which of [0, 1]) {
    it(`the other serves on when the ${which === 0 ? 'first' : 'second'} is killed, with exact limits and whole trails`, async () => {
      const [victim, survivor] = [gateways[which]!, gateways[1 - which]!]
      const load = startLoad(`/kill-${which}`)
      await until(() => (load.statusOf.size > 10 * CONNECTIONS ? true : undefined))
      await victim.end('SIGKILL')
      // After the kill no new request fails.
      assert.deepEqual(new Set(await askOnNew('/free', 100)), new Set([200]))
      const brokenByThen = load.broken.length
      const seen = load.statusOf.size
      await until(() => (load.statusOf.size > seen + 10 * CONNECTIONS ? true : undefined))
      await until(() => (load.refused() > 0 ? true : undefined))
      await load.end()
      assert.equal(load.broken.length, brokenByThen)
      assert.ok(load.broken.length <= CONNECTIONS, load.broken.join())
      const survived = new Set(survivor.audit().map(({ requestId }) => requestId))
      assert.deepEqual(
        load.broken.filter((id) => survived.has(id)),
        [],
      )
      // Requests that the killed gateway counted may not have reached the service.
      const passed = allowed.get(`/kill-${which}`) ?? 0
      assert.ok(passed <= LIMIT && passed >= LIMIT - load.broken.length, String(passed))

      gateways[which] = await start(victim.dir)
      const after = await askOnNew(`/after-${which}`, 2 * LIMIT)
      assert.equal(after.filter((status) => status === 200).length, LIMIT)
      const trails = gateways.map((gateway) => gateway.audit())
      for (const records of trails) assert.deepEqual(unpaired(records), [])
      assert.deepEqual(contradicted(trails.flat(), load.statusOf), [])
    })
  }

  it('one restarts under load without a failed request', async () => {
    const load = startLoad('/restart')
    await until(() => (load.refused() > 0 ? true : undefined))
    const { restarted, text } = await askRestart(join(gateways[0]!.dir, 'data'))
    assert.ok(restarted, text)
    const seen = load.statusOf.size
    await until(() => (load.statusOf.size > seen + 10 * CONNECTIONS ? true : undefined))
    await load.end()
    assert.deepEqual(load.broken, [])
    assert.equal(allowed.get('/restart'), LIMIT)
  })

  it('a forgotten setting stops the start, and the log says what to do', async () => {
    const first = gateways[1]!
    const { GATEWAY_ADMIN_PORT, GATEWAY_PORT, ...places } = placesIn(first.dir)
    const own = placesIn(join(first.dir, 'second'))
    const files = { GATEWAY_CONFIG: join(first.dir, 'gateway.json'), GATEWAY_LIMITS: first.limitsFile }
    const adminPort = new URL(first.adminUrl).port
    const cases: [env: Record<string, string>, cause: RegExp][] = [
      [
        { GATEWAY_DATA_DIR: places.GATEWAY_DATA_DIR! },
        /in use by another gateway: .* GATEWAY_DATA_DIR of its own/,
      ],
      [{ GATEWAY_AUDIT_FILE: places.GATEWAY_AUDIT_FILE! }, /another process.* GATEWAY_AUDIT_FILE of its own/],
      [
        { GATEWAY_ADMIN_PORT: adminPort },
        /EADDRINUSE.*: each gateway needs an admin port of its own: GATEWAY_ADMIN_PORT/,
      ],
      [
        { GATEWAY_REUSE_PORT: 'false' },
        /EADDRINUSE.*: gateways share a port only when each .* GATEWAY_REUSE_PORT=true/,
      ],
    ]
    for (const [env, cause] of cases) {
      const second = run('gateway/main.ts', { ...files, ...own, ...shared(), ...env })
      assert.equal(await second.ended, 1)
      assert.equal(second.plain(), '')
      assert.match(String(second.lines.findLast(({ level }) => level === 60)?.cause), cause)
    }
  })

  it('each trail is proven when both have stopped', async () => {
    for (const gateway of gateways) {
      process.kill(writerOf(gateway), 'SIGTERM')
      // Waits also for a new process, which has the pipe of the log.
      await gateway.process.ended
      const key = join(gateway.dir, 'data', 'audit-seal-key.pem')
      const verified = await countersign(['audit', 'verify', '--key', key, gateway.auditFile])
      const { status, stdout, stderr } = verified
      assert.equal(status, 0, stdout + stderr)
    }
  })
})
