import assert from 'node:assert/strict'
import { once } from 'node:events'
import { renameSync, writeFileSync } from 'node:fs'
import { Agent, type RequestListener } from 'node:http'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { call, type ReceivedResponse } from './client.ts'
import { commonGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

/** A service that can be made slow or faulty, and that lists its requests. */
interface Service {
  readonly upstream: TestUpstream
  readonly asked: string[]
  /** Its status for requests, and for health checks. */
  status: number
  checkStatus: number
  /** Holds responses to requests back. */
  slow: boolean
}

async function startService(name: string): Promise<Service> {
  const listener: RequestListener = (req, res) => {
    if (req.url === '/healthz') {
      res.statusCode = service.checkStatus
      res.end(JSON.stringify(req.headers))
      return
    }
    service.asked.push(`${req.method} ${req.url}`)
    res.statusCode = service.status
    if (!service.slow || req.url === '/quick') res.end(name)
  }
  const service: Service = {
    upstream: await startUpstream(listener),
    asked: [],
    status: 200,
    checkStatus: 200,
    slow: false,
  }
  return service
}

describe('upstream groups', () => {
  const agent = new Agent({ keepAlive: true })
  const services: Service[] = []
  let gateway: TestGateway
  let config: { upstreams: Record<string, object>; routes: object[] } & Record<string, unknown>

  const url = (index: number): string => (services[index] as Service).upstream.url
  const ask = (path: string, method = 'GET'): Promise<ReceivedResponse> =>
    call(gateway.url + path, { method, agent })
  const healthy = (index: number) => gateway.metric(`gateway_upstream_healthy{upstream="${url(index)}"}`)
  const state = (index: number) => gateway.metric(`gateway_upstream_breaker_state{upstream="${url(index)}"}`)
  const is = async <T>(look: () => Promise<T>, wanted: T) =>
    until(async () => ((await look()) === wanted ? true : undefined))
  /** Resolves when so many log lines have come, which may be later than responses. */
  const logged = async (message: RegExp, count: number) => {
    const found = () => gateway.process.lines.filter(({ msg }) => message.test(String(msg)))
    await until(() => (found().length >= count ? true : undefined))
    return found()
  }

  /** Edits gateway.json. Resolves when the edit is in force. */
  async function edit(change: Partial<typeof config>): Promise<void> {
    const reloads = 'gateway_config_reloads_total{file="gateway.json",result="success"}'
    const already = await gateway.metric(reloads)
    config = { ...config, ...change }
    const file = join(gateway.dir, 'gateway.json')
    writeFileSync(`${file}.new`, JSON.stringify(config))
    renameSync(`${file}.new`, file)
    await until(async () => ((await gateway.metric(reloads)) > already ? true : undefined))
  }

  before(async () => {
    services.push(...(await Promise.all(Array.from({ length: 8 }, (_, i) => startService(`service ${i}`)))))
    const routes = Object.entries({ plain: 'default', checked: 'checked', broken: 'broken', again: 'again' })
    config = {
      upstream: url(0),
      upstreams: {
        default: { maxInFlight: 1 },
        checked: {
          targets: [url(1), url(2)],
          healthCheck: {
            path: '/healthz',
            intervalMs: 100,
            timeoutMs: 10_000,
            unhealthyAfter: 1,
            healthyAfter: 1,
          },
          slowStartMs: 3_600_000,
        },
        broken: { targets: [url(3)], breaker: { failures: 3, openMs: 4000 } },
        again: { targets: [url(4), url(5)], retry: { budgetPercent: 0, minPerSecond: 1 } },
      },
      routes: [
        { path: '/quick', auth: ['none'] },
        ...routes.map(([path, upstream]) => ({ path: `/${path}/*`, auth: ['none'], upstream })),
      ],
    }
    gateway = await commonGateway({ config })
  })
  after(async () => {
    agent.destroy()
    for (const { upstream } of services) upstream.close()
  })

  it('get the requests of the routes that name them, and the default group gets all others', async () => {
    assert.equal((await ask('/quick')).body, 'service 0')
    assert.equal((await ask('/plain/x')).body, 'service 0')
    const bodies = new Set<string>()
    for (let i = 0; i < 4; i++) bodies.add((await ask('/checked/x')).body)
    assert.deepEqual([...bodies].sort(), ['service 1', 'service 2'])
    assert.equal((await ask('/broken/x')).body, 'service 3')
  })

  it('do not wait for a slow group, which holds or refuses its own requests only', async () => {
    const service = services[0] as Service
    service.slow = true
    const held = ask('/plain/held')
    await until(() => (service.asked.includes('GET /plain/held') ? true : undefined))
    assert.equal((await ask('/broken/x')).body, 'service 3')
    const refused = await ask('/plain/refused')
    assert.deepEqual([refused.status, refused.json().code], [503, 'overloaded'])
    const [, response] = await gateway.pair(String(refused.headers['x-request-id']))
    assert.equal(response.statusCode, 503)
    service.slow = false
    service.upstream.server.closeAllConnections()
    const { status, body } = await held
    assert.deepEqual([status, body], [200, 'service 0'])
    assert.equal((await ask('/quick')).body, 'service 0')
  })

  it('leave out a target whose health check fails, though it responds, and use it again slowly', async () => {
    const ill = services[1] as Service
    ill.checkStatus = 302
    await is(() => healthy(1), 0)
    const earlier = ill.asked.length
    for (let i = 0; i < 8; i++) assert.equal((await ask('/checked/x')).body, 'service 2')
    assert.equal(ill.asked.length, earlier)
    ill.checkStatus = 204
    await is(() => healthy(1), 1)
    for (let i = 0; i < 40; i++) await ask('/checked/x')
    const share = ill.asked.length - earlier
    assert.ok(share >= 1 && share <= 6, `${share} of 40`)
    const [down, up] = await logged(/^an upstream (failed|passes) its health checks/, 2)
    assert.deepEqual(
      [down?.group, down?.upstream, down?.isUp, down?.cause, up?.isUp],
      ['checked', url(1), false, 'status 302', true],
    )
  })

  it('refuse with 503 while the circuit breaker is open, and serve again when a trial request passes', async () => {
    const ill = services[3] as Service
    ill.status = 500
    for (let i = 0; i < 3; i++) assert.equal((await ask('/broken/ill')).status, 500)
    const refused = await ask('/broken/refused')
    assert.deepEqual([refused.status, refused.json().code], [503, 'upstream_unavailable'])
    assert.match(String(refused.headers['retry-after']), /^[1-4]$/)
    assert.equal(await state(3), 2)
    assert.ok(!ill.asked.includes('GET /broken/refused'))
    ill.status = 200
    await until(async () => ((await ask('/broken/well')).status === 200 ? true : undefined))
    assert.deepEqual(
      (await logged(/^the circuit breaker of an upstream is /, 3)).map(({ state, msg }) => [state, msg]),
      ['open', 'half-open', 'closed'].map((state) => [
        state,
        `the circuit breaker of an upstream is ${state}`,
      ]),
    )
    assert.equal(await gateway.metric(`gateway_upstream_breaker_opened_total{upstream="${url(3)}"}`), 1)
    assert.equal((await gateway.metric('gateway_refusals_total{code="upstream_unavailable"}')) >= 1, true)
    const [request, response] = await gateway.pair(String(refused.headers['x-request-id']))
    assert.deepEqual([request.path, response.statusCode], ['/broken/refused', 503])
  })

  it('send a safe request again after a 503, within the budget', async () => {
    const ill = services[4] as Service
    ill.status = 503
    for (let i = 0; i < 2; i++) assert.equal((await ask('/again/safe')).body, 'service 5')
    assert.equal(ill.asked.length, 1)
    assert.equal(await gateway.metric('gateway_upstream_retries_total{group="again",outcome="succeeded"}'), 1)
    // Another method, or a request beyond the budget, gets the 503.
    const statuses = new Set<number>()
    for (let i = 0; i < 4; i++) statuses.add((await ask('/again/unsafe', 'POST')).status)
    assert.ok(statuses.has(503))
  })

  it('go on with the other targets when one is killed', async () => {
    const killed = services[5] as Service
    ;(services[4] as Service).status = 200
    killed.upstream.close()
    await once(killed.upstream.server, 'close')
    for (let i = 0; i < 6; i++) assert.equal((await ask('/again/x')).body, 'service 4')
    assert.equal(await healthy(5), 0)
  })

  it('follow an edit: a new group serves, a kept target keeps its breaker, a removed one is forgotten', async () => {
    const ill = services[3] as Service
    ill.status = 500
    const broken = { targets: [url(3)], breaker: { failures: 3, openMs: 3_600_000 } }
    await edit({ upstreams: { ...config.upstreams, broken } })
    for (let i = 0; i < 3; i++) await ask('/broken/ill')
    assert.equal(await state(3), 2)
    const { checked: _, ...rest } = config.upstreams
    await edit({
      upstreams: {
        ...rest,
        broken: { ...broken, targets: [url(3), url(6)] },
        fresh: {
          targets: [url(7)],
          healthCheck: { path: '/healthz', intervalMs: 100, timeoutMs: 10_000, unhealthyAfter: 1 },
        },
      },
      routes: [
        ...config.routes.filter((route) => !JSON.stringify(route).includes('checked')),
        { path: '/fresh/*', auth: ['none'], upstream: 'fresh' },
      ],
    })
    assert.equal((await ask('/fresh/x')).body, 'service 7')
    for (let i = 0; i < 4; i++) assert.equal((await ask('/broken/x')).body, 'service 6')
    assert.equal(await state(3), 2)
    const { body: page } = await call(`${gateway.adminUrl}/metrics`)
    assert.ok(!page.includes(`gateway_upstream_healthy{upstream="${url(1)}"}`))
    const fresh = services[7] as Service
    fresh.checkStatus = 500
    await is(() => healthy(7), 0)
    assert.equal((await ask('/fresh/x')).body, 'service 7', 'all are down, so all are asked')
  })

  it('stay in force when an edit names an unknown group', async () => {
    const failures = 'gateway_config_reloads_total{file="gateway.json",result="failure"}'
    const file = join(gateway.dir, 'gateway.json')
    const routes = [{ path: '/fresh/*', auth: ['none'], upstream: 'frehs' }]
    writeFileSync(file, JSON.stringify({ ...config, routes }))
    await is(() => gateway.metric(failures), 1)
    assert.equal((await ask('/fresh/x')).body, 'service 7')
  })
})
