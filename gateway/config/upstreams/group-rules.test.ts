import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseGatewayFile } from '../gateway-file.ts'
import { loadSettings } from '../load-settings.ts'
import { groupsInUse, groupWarnings } from './group-rules.ts'

const ROUTES = [{ path: '/*', auth: ['none'], upstream: 'pay' }]
const TARGETS = ['http://a:1', 'unix:/b']

function groups(upstreams: object, more: object = {}) {
  const text = JSON.stringify({ upstreams, routes: ROUTES, ...more })
  const { value, faults } = parseGatewayFile('gateway.json', text)
  assert.deepEqual(faults, undefined)
  return value && groupsInUse(value)
}

function fault(upstreams: unknown, routes: readonly object[] = ROUTES): string {
  const parsed = parseGatewayFile('gateway.json', JSON.stringify({ upstreams, routes }))
  assert.equal(parsed.faults?.length, 1, JSON.stringify(parsed.faults))
  const [{ path, reason } = { path: '', reason: '' }] = parsed.faults ?? []
  return `${path}: ${reason.replace(/ \(line \d+\)$/, '')}`
}

test('a group with nothing but targets has no health check, breaker or retries', () => {
  assert.deepEqual(groups({ pay: { targets: ['http://a/', 'https://b:4'] } }), [
    {
      name: 'pay',
      targets: ['http://a', 'https://b:4'],
      slowStartMs: 0,
    },
  ])
})

test('the targets of a group speak one version of HTTP, and those of the default group do too', () => {
  assert.deepEqual(groups({ pay: { targets: ['h2c://a:1/', 'h2://b'] } })?.[0]?.targets, [
    'h2c://a:1',
    'h2://b',
  ])
  assert.equal(
    fault({ pay: { targets: ['h2c://a', 'http://b'] } }),
    '$.upstreams.pay.targets[1]: must speak the same version of HTTP as "h2c://a", but is "http://b"',
  )
  const upstream = ['http://a', 'h2://b']
  const parsed = parseGatewayFile(
    'gateway.json',
    JSON.stringify({ upstream, routes: [{ path: '/*', auth: ['none'] }] }),
  )
  assert.deepEqual(
    parsed.faults?.map(({ path }) => path),
    ['$.upstream[1]'],
  )
})

test('health check, breaker and retries of a group have their defaults', () => {
  const pay = { targets: TARGETS, healthCheck: { path: '/up' }, breaker: {}, retry: {}, slowStartMs: 5 }
  const [group] = groups({ pay }) ?? []
  assert.deepEqual(group?.healthCheck, {
    path: '/up',
    intervalMs: 5000,
    timeoutMs: 2000,
    healthyAfter: 2,
    unhealthyAfter: 3,
  })
  assert.deepEqual(group?.breaker, {
    failures: 5,
    windowMs: 10_000,
    minRequests: 20,
    openMs: 5000,
    probes: 1,
  })
  assert.deepEqual(group?.retry, {
    statuses: [502, 503, 504],
    budgetPercent: 20,
    minPerSecond: 1,
    attempts: 1,
  })
  assert.equal(group?.slowStartMs, 5)
})

test('a faulty group is named with its path and the reason', () => {
  const of = (pay: object) => fault({ pay: { targets: TARGETS, ...pay } })
  const check = (healthCheck: object) => of({ healthCheck: { path: '/', ...healthCheck } })
  assert.equal(fault({ pay: {} }), '$.upstreams.pay.targets: is missing')
  assert.match(of({ targets: [] }), /^\$\.upstreams\.pay\.targets: must not be empty/)
  assert.match(of({ targets: ['ftp://a'] }), /^\$\.upstreams\.pay\.targets\[0\]: must be http:/)
  assert.match(
    of({ targets: ['http://a', 'http://a/'] }),
    /targets\[1\]: must not be "http:\/\/a" a second time/,
  )
  assert.match(
    of({ breakers: {} }),
    /^\$\.upstreams\.pay\.breakers: is not a known key; did you mean "breaker"/,
  )
  assert.match(of({ breaker: { failures: 0 } }), /^\$\.upstreams\.pay\.breaker: never opens/)
  assert.match(of({ breaker: { statuses: [404] } }), /statuses\[0\]: must be between 500 and 599/)
  assert.match(of({ retry: { statuses: [] } }), /retry\.statuses: must not be empty/)
  assert.match(of({ retry: { budgetPercent: 101 } }), /budgetPercent: must be between 0 and 100/)
  assert.match(of({ healthCheck: {} }), /healthCheck\.path: is missing/)
  assert.match(check({ path: 'up' }), /healthCheck\.path: must begin with "\/"/)
  assert.match(check({ path: '/up?deep=1' }), /healthCheck\.path: must end before "\?"/)
  assert.match(check({ path: '/*' }), /healthCheck\.path: must be one path/)
  assert.match(check({ host: 'a b' }), /healthCheck\.host: must be a host name or an address/)
  assert.match(check({ host: 'a:0' }), /healthCheck\.host: must be/)
  assert.match(check({ host: 'a\r\nX: y' }), /healthCheck\.host: must be/)
  for (const name of ['', '1', 'a.b', 'a"b', '__proto__x.', 'x'.repeat(65)]) {
    const upstreams = { pay: { targets: TARGETS }, [name]: { targets: TARGETS } }
    assert.match(fault(upstreams), /must have a name of at most 64 letters/)
  }
})

test('a route must name a group that there is', () => {
  const route = { path: '/*', auth: ['none'], upstream: 'pays' }
  assert.equal(
    fault({ pay: { targets: TARGETS } }, [route]),
    '$.routes[0].upstream: must name a group of "upstreams" or be "default", but is "pays"',
  )
  assert.match(fault({}, [{ ...route, upstream: 'constructor' }]), /must name a group/)
})

test('the default group has the targets of upstream or the environment, and may have the other keys', () => {
  assert.match(
    fault({ pay: { targets: TARGETS }, default: { targets: TARGETS } }),
    /^\$\.upstreams\.default\.targets: must not/,
  )
  const settings = (env: Record<string, string>) => {
    const { value } = loadSettings(env, () =>
      JSON.stringify({
        upstream: 'http://a',
        upstreams: {
          default: { slowStartMs: 7 },
          pay: { targets: ['http://p'] },
          unused: { targets: ['http://u'] },
        },
        routes: [...ROUTES, { path: '/own', auth: ['none'] }],
      }),
    )
    assert.ok(value)
    return groupsInUse(value).map(({ name, targets, slowStartMs }) => [name, targets, slowStartMs])
  }
  assert.deepEqual(settings({}), [
    ['default', ['http://a'], 7],
    ['pay', ['http://p'], 0],
  ])
  assert.deepEqual(settings({ GATEWAY_UPSTREAM: 'http://b,http://c' })?.[0], [
    'default',
    ['http://b', 'http://c'],
    7,
  ])
})

test('a group that no route names is a warning', () => {
  const { value } = loadSettings({}, () =>
    JSON.stringify({
      upstreams: { pay: { targets: TARGETS }, default: { breaker: {} } },
      jwksUri: 'http://k',
      routes: ROUTES,
    }),
  )
  assert.ok(value)
  assert.deepEqual(groupWarnings(value.upstreams, value.routes), [
    'the upstream group "default" has no effect: no route names it',
  ])
})

test('a group that leads back to the gateway is a fault', () => {
  const { faults } = loadSettings({}, () =>
    JSON.stringify({
      upstreams: { pay: { targets: ['http://x', 'http://localhost:8080'] } },
      routes: ROUTES,
    }),
  )
  assert.deepEqual(
    faults?.map(({ path }) => path),
    ['$.upstreams.pay.targets[1]'],
  )
})
