import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import type { RequestListener, ServerResponse } from 'node:http'
import { connect, constants } from 'node:http2'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { countersign } from '../cli/program.test-support.ts'
import { temporaryDirectory } from '../storage/temporary-directory.test-support.ts'
import type { Environment } from './child-process.ts'
import { type Call, call, type ReceivedResponse } from './client.ts'
import { ask } from './http2-client.ts'
import { LONGER } from './long-runs.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { mountSmallDisk, NO_SMALL_DISK, type SmallDisk } from './small-disk.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'
import { openWire } from './wire.ts'

/** 50 in a long run. */
const RESTARTS = Math.floor(2.5 * LONGER)
const { NGHTTP2_CANCEL: CANCEL } = constants
const BODY = '{"amount":"12.50"}'
const ROUTES = [
  { path: '/*', auth: ['bearer'], idempotency: { required: true, maxKeysPerCaller: 1_000_000 } },
  { path: '/scoped', auth: ['bearer'], scopes: ['transfers:write'], idempotency: {} },
]

/** Calls of the service by key. The service itself ignores keys. */
const calls = new Map<string, number>()
/** Responses that the test gives later, by key. */
const waiting = new Map<string, ServerResponse>()
let served = 0

const serve: RequestListener = (req, res) => {
  const key = String(req.headers['idempotency-key'])
  calls.set(key, (calls.get(key) ?? 0) + 1)
  req.resume()
  req.on('end', () => {
    if (req.url === '/waits') waiting.set(key, res)
    else if (req.url === '/broken') res.destroy()
    else if (req.url === '/slow') setTimeout(answer, 5 * Math.random(), res)
    else answer(res)
  })
}

function answer(res: ServerResponse): void {
  served += 1
  res.writeHead(201, {
    'content-type': 'application/json',
    location: `/transfers/${served}`,
    'set-cookie': 'a=b',
  })
  res.end(JSON.stringify({ transfer: served }))
}

let upstream: TestUpstream
let token: string
const gateways: TestGateway[] = []

before(async () => {
  upstream = await startUpstream(serve)
  token = await upstream.issuer.token()
})
after(async () => {
  for (const gateway of gateways) gateway.kill()
  upstream.close()
})

async function start(config: object = {}, before?: TestGateway, env: Environment = {}): Promise<TestGateway> {
  const gateway = await startGateway({
    config: { upstream: upstream.url, routes: ROUTES, ...config },
    limits: [{ path: '/limited', limit: 1, window: '1h', purpose: 'a test' }],
    ...(before && { dir: before.dir }),
    env,
  })
  gateways.push(gateway)
  return gateway
}

function headers(key: string): Record<string, string> {
  return { authorization: `Bearer ${token}`, 'idempotency-key': key, 'content-type': 'application/json' }
}

function pay(
  gateway: TestGateway,
  key: string,
  path = '/transfers',
  more: Call = {},
): Promise<ReceivedResponse> {
  return call(`${gateway.url}${path}`, { method: 'POST', headers: headers(key), body: BODY, ...more })
}

/** Sends a request, and closes the connection when the service has it. */
async function payAndLeave(gateway: TestGateway, key: string, path: string): Promise<void> {
  const wire = await openWire(gateway.port)
  const lines = Object.entries({ host: '127.0.0.1', ...headers(key), 'content-length': BODY.length })
  wire.send(
    `POST ${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${BODY}`,
  )
  await until(() => waiting.has(key) || undefined)
  wire.socket.destroy()
}

const codeOf = (response: ReceivedResponse) => response.json<{ code?: string }>().code

describe('requests with an idempotency key', () => {
  let gateway: TestGateway

  before(async () => {
    gateway = await start()
  })

  it('reach the service once: a second one gets the first response again', async () => {
    const key = randomUUID()
    const first = await pay(gateway, key)
    const next = await pay(gateway, key, '/transfers', {
      headers: { ...headers(`"${key}"`), 'x-request-id': 'next' },
    })
    assert.deepEqual(
      [next.status, next.body, next.headers.location],
      [201, first.body, first.headers.location],
    )
    assert.equal(next.headers['idempotency-replayed'], 'true')
    assert.equal(first.headers['idempotency-replayed'], undefined)
    assert.deepEqual([first.headers['set-cookie'], next.headers['set-cookie']], [['a=b'], undefined])
    assert.equal(next.headers['x-request-id'], 'next')
    assert.equal(calls.get(key), 1)
    const [, response] = await gateway.pair('next')
    assert.equal(response.replayOf, first.headers['x-request-id'])
    assert.ok((await gateway.metric('gateway_idempotency_total{route="/*",outcome="replayed"}')) >= 1)
    assert.ok((await gateway.metric('gateway_idempotency_total{route="/*",outcome="begun"}')) >= 1)
  })

  it('reach the service once also when several clients send them at the same time', async () => {
    for (let round = 0; round < 20 * LONGER; round++) {
      const key = randomUUID()
      const racing = await Promise.all([1, 2, 3, 4].map(() => pay(gateway, key, '/slow')))
      const ids = new Set<unknown>()
      for (const response of racing) {
        if (response.status === 201) ids.add(response.body)
        else assert.deepEqual([response.status, codeOf(response)], [409, 'idempotency_in_progress'])
      }
      assert.deepEqual([calls.get(key), ids.size], [1, 1])
    }
  })

  it('go on without their client, which gets the response when it asks again', async () => {
    const key = randomUUID()
    await payAndLeave(gateway, key, '/waits')
    const early = await pay(gateway, key, '/waits')
    assert.deepEqual(
      [early.status, codeOf(early), early.headers['retry-after']],
      [409, 'idempotency_in_progress', '1'],
    )
    answer(waiting.get(key) as ServerResponse)
    const late = await until(async () => {
      const response = await pay(gateway, key, '/waits')
      return response.status === 409 ? undefined : response
    })
    assert.deepEqual([late.status, late.headers['idempotency-replayed'], calls.get(key)], [201, 'true', 1])
  })

  it('do not count towards a limit when they are replayed', async () => {
    const key = randomUUID()
    assert.equal((await pay(gateway, key, '/limited')).status, 201)
    assert.equal((await pay(gateway, key, '/limited')).status, 201)
    const other = await pay(gateway, randomUUID(), '/limited')
    assert.equal(other.status, 429)
  })

  it('leave their key free when a limit refuses them', async () => {
    const key = randomUUID()
    assert.equal((await pay(gateway, key, '/limited')).status, 429)
    assert.equal((await pay(gateway, key, '/limited')).status, 429)
    assert.equal(calls.get(key), undefined)
  })

  it('are refused if their key came with another body, or if they have two keys', async () => {
    const key = randomUUID()
    await pay(gateway, key)
    const reused = await pay(gateway, key, '/transfers', { body: '{"amount":"12.51"}' })
    const { type } = reused.json<{ type: string }>()
    assert.deepEqual([reused.status, type], [422, 'urn:countersign:problem:idempotency_key_reused'])
    const repeated = await call(`${gateway.url}/transfers`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'idempotency-key': [key, key] },
    })
    assert.deepEqual([repeated.status, codeOf(repeated)], [400, 'invalid_header'])
  })

  it('get no kept response if their token lacks the scope, or is of another caller', async () => {
    const key = randomUUID()
    const as = async (claims: Record<string, string>) =>
      pay(gateway, key, '/scoped', {
        headers: { ...headers(key), authorization: `Bearer ${await upstream.issuer.token(claims)}` },
      })
    const first = await as({ scope: 'transfers:write' })
    assert.equal(first.status, 201)
    assert.equal((await as({ scope: 'accounts:read' })).status, 403)
    for (const other of [{ sub: 'user-2' }, { client_id: 'app-2' }]) {
      const response = await as({ scope: 'transfers:write', ...other })
      assert.deepEqual([response.status, response.headers['idempotency-replayed']], [201, undefined])
      assert.notEqual(response.body, first.body)
    }
    assert.equal(calls.get(key), 3)
  })

  it('are shown by "idempotency show" while the gateway runs', async () => {
    const [key, broken] = [randomUUID(), randomUUID()]
    const { headers: had } = await pay(gateway, key)
    await pay(gateway, broken, '/broken')
    const files = () => readdirSync(join(gateway.dir, 'data', 'idempotency'))
    const before = files()
    const show = async (...flags: string[]) => {
      const { status, stdout, stderr } = await countersign(['idempotency', 'show', '--json', ...flags], {
        ...process.env,
        GATEWAY_CONFIG: join(gateway.dir, 'gateway.json'),
        GATEWAY_DATA_DIR: join(gateway.dir, 'data'),
      })
      return { status, stderr, shown: stdout === '' ? undefined : JSON.parse(stdout) }
    }
    const caller = ['--caller', 'user-1']
    const { shown, stderr } = await show('--key', `"${key}"`, ...caller)
    assert.equal(stderr, '')
    assert.deepEqual(
      [shown.row, shown.state, shown.status, shown.isKept, shown.firstRequest],
      ['/*', 'done', 201, true, had['x-request-id']],
    )
    assert.equal(Date.parse(shown.keptUntil) - Date.parse(shown.since), 86_400_000)
    assert.equal((await show('--key', broken, ...caller)).shown.state, 'unknown')
    assert.deepEqual((await show('--key', key, '--caller', 'user-2')).status, 1)
    assert.match((await show('--key', key)).stderr, /needs --key and --caller/)
    assert.deepEqual(files(), before)
  })

  it('"idempotency show" makes no file, and names the one that it cannot read', async (t) => {
    const dir = temporaryDirectory(t)
    const [config, data, loop] = ['gateway.json', 'data', 'loop'].map((name) => join(dir, name)) as [
      string,
      string,
      string,
    ]
    const routes = [{ path: '/*', auth: ['bearer'], idempotency: {} }]
    const show = async (dataDir: string, keys: object = {}) => {
      writeFileSync(config, JSON.stringify({ upstream: upstream.url, routes, ...keys }))
      const words = ['idempotency', 'show', '--key', 'a', '--caller', 'user-1']
      const { status, stderr } = await countersign(words, {
        GATEWAY_CONFIG: config,
        GATEWAY_DATA_DIR: dataDir,
      })
      return `${status} ${stderr}`
    }
    assert.match(await show(data), /^1 no idempotency keys are kept: .*data\/idempotency is not there$/m)
    mkdirSync(join(data, 'idempotency'), { recursive: true })
    assert.match(await show(data), /^2 .*data\/idempotency-key cannot be read: ENOENT/)
    assert.deepEqual(readdirSync(data), ['idempotency'])
    writeFileSync(join(data, 'idempotency-key'), 'k'.repeat(32))
    assert.match(
      await show(data),
      /^1 no row has this key of this caller in .*data\/idempotency; --client names an app/,
    )
    rmSync(join(data, 'idempotency-key'))
    symlinkSync(loop, loop)
    assert.match(await show(loop), /^2 .*ELOOP/)
    assert.match(await show(data, { idempotencyKeyFile: loop }), /^1 .*loop: \$: cannot be read: ELOOP/)
  })

  it('may have bodies longer than one read, up to the bound of the row', async () => {
    const key = randomUUID()
    const long = { body: Buffer.alloc(500_000, 'a') }
    assert.equal((await pay(gateway, key, '/transfers', long)).status, 201)
    assert.equal((await pay(gateway, key, '/transfers', long)).headers['idempotency-replayed'], 'true')
    assert.equal(
      (await pay(gateway, randomUUID(), '/transfers', { body: Buffer.alloc(1_048_577) })).status,
      413,
    )
  })
})

for (const durability of ['written', 'synced'])
  describe(`a gateway that is killed, with durability ${durability}`, () => {
    const [done, unanswered, half, unsent] = [randomUUID(), randomUUID(), randomUUID(), randomUUID()]
    let body: string
    let next: TestGateway
    before(async () => {
      const away = await startUpstream()
      const first = await start({
        audit: { durability },
        routes: [...ROUTES, { path: '/away', auth: ['bearer'], upstream: 'away', idempotency: {} }],
        upstreams: { away: { targets: [away.url] } },
      })
      away.close()
      body = (await pay(first, done)).body
      assert.equal((await pay(first, unsent, '/away')).status, 502)
      await payAndLeave(first, unanswered, '/waits')
      const begun = pay(first, half, '/waits').catch(() => {})
      const response = await until(() => waiting.get(half))
      response.writeHead(201, { 'content-length': '10' })
      response.write('half')
      await sleep(50)
      await first.end('SIGKILL')
      await begun
      next = await start({}, first)
    })

    it('replays the response of a key that was done', async () => {
      const again = await pay(next, done)
      assert.deepEqual([again.status, again.body, calls.get(done)], [201, body, 1])
    })

    it('never sends a request again that the service got', async () => {
      for (const key of [unanswered, half]) {
        const refused = await pay(next, key, '/waits')
        assert.deepEqual([refused.status, codeOf(refused), calls.get(key)], [409, 'idempotency_unknown', 1])
      }
      const asked = next.audit().find(({ path }) => path === '/waits')
      const told = `the request ${asked?.requestId} of userId "${asked?.userId}"`
      await next.process.line(({ cause }) => String(cause).includes(told))
    })

    it('keeps a key free if its request was never sent', async () => {
      assert.equal((await pay(next, unsent, '/away')).status, 502)
    })
  })

const probe = mountSmallDisk()
probe?.remove()

it('with a full disk no key begins, and at least the status of each response is kept', {
  skip: probe === undefined ? NO_SMALL_DISK : false,
}, async () => {
  const disk = mountSmallDisk() as SmallDisk
  const env = { GATEWAY_DATA_DIR: join(disk.dir, 'data') }
  try {
    const gateway = await start({}, undefined, env)
    const [before, waits] = [randomUUID(), randomUUID()]
    const { body } = await pay(gateway, before)
    const late = pay(gateway, waits, '/waits')
    const response = await until(() => waiting.get(waits))
    disk.fill()
    const refused = await until(async () => {
      const key = randomUUID()
      const next = await pay(gateway, key)
      if (next.status === 201) return undefined
      assert.deepEqual(
        [next.status, codeOf(next), calls.get(key)],
        [503, 'idempotency_unavailable', undefined],
      )
      return next
    })
    assert.equal(refused.headers['retry-after'], '5')
    assert.equal((await pay(gateway, before)).body, body)
    response.writeHead(201)
    response.end(Buffer.alloc(60_000))
    assert.equal((await late).status, 201)
    await gateway.end('SIGKILL')
    disk.free()
    const next = await start({}, gateway, env)
    assert.equal((await pay(next, before)).headers['idempotency-replayed'], 'true')
    const again = await pay(next, waits, '/waits')
    assert.deepEqual([again.status, codeOf(again)], [409, 'idempotency_response_not_kept'])
    for (const key of [before, waits]) assert.equal(calls.get(key), 1)
    await next.end('SIGKILL')
  } finally {
    disk.remove()
  }
})

it('HTTP/2 requests with an idempotency key reach the service once too', async () => {
  const gateway = await start({ http2: true })
  const session = connect(gateway.url)
  try {
    const key = randomUUID()
    const asked = { method: 'POST', path: '/slow', headers: headers(key), body: BODY }
    const racing = await Promise.all([1, 2, 3, 4].map(() => ask(session, asked)))
    const [first, ...others] = racing.sort((a, b) => a.status - b.status)
    assert.equal(first?.status, 201)
    for (const { status, body } of others) assert.ok(status === 409 || body === first?.body)
    const again = await ask(session, asked)
    assert.deepEqual(
      [again.status, again.body, again.headers['idempotency-replayed']],
      [201, first?.body, 'true'],
    )
    const overHttp1 = await pay(gateway, key, '/slow')
    assert.deepEqual([overHttp1.body, calls.get(key)], [first?.body, 1])
    const gone = randomUUID()
    const stream = session.request({ ':method': 'POST', ':path': '/waits', ...headers(gone) })
    stream.on('error', () => {})
    stream.end(BODY)
    const response = await until(() => waiting.get(gone))
    stream.close(CANCEL)
    answer(response)
    const kept = await until(async () => {
      const next = await ask(session, { ...asked, path: '/waits', headers: headers(gone) })
      return next.status === 409 ? undefined : next
    })
    assert.deepEqual([kept.status, kept.headers['idempotency-replayed'], calls.get(gone)], [201, 'true', 1])
  } finally {
    session.destroy()
  }
})

it('keys are found after a change of their secret, and an edit that would lose them is refused', async (t) => {
  const dir = temporaryDirectory(t)
  const file = join(dir, 'key')
  const [old, next, key, later] = ['o'.repeat(32), 'n'.repeat(32), randomUUID(), randomUUID()]
  writeFileSync(file, `${old}\n`)
  const gateway = await start({ idempotencyKeyFile: file })
  const success = 'gateway_config_last_reload_successful{file="gateway.json"}'
  const edit = async (lines: string, outcome: number) => {
    const changes = () => gateway.audit().filter(({ type }) => type === 'CONFIG_CHANGE').length
    const known = changes()
    writeFileSync(file, lines)
    await until(
      async () => (outcome === 1 ? changes() > known : (await gateway.metric(success)) === 0) || undefined,
    )
  }
  const { body } = await pay(gateway, key)
  await edit(`${next}\n`, 0)
  assert.equal((await pay(gateway, key)).body, body)
  await edit(`${next}\n${old}\n`, 1)
  assert.equal((await pay(gateway, key)).body, body)
  const made = await pay(gateway, later)
  await gateway.restart()
  for (const [one, first] of [
    [key, body],
    [later, made.body],
  ] as const) {
    assert.equal((await pay(gateway, one)).body, first)
    assert.equal(calls.get(one), 1)
  }
  assert.ok(!JSON.stringify(gateway.audit()).includes(next))
})

describe('a restart', () => {
  let gateway: TestGateway
  before(async () => {
    gateway = await start()
  })

  it('keeps keys that are done and keys that are in progress', async () => {
    const [done, waits] = [randomUUID(), randomUUID()]
    const { body } = await pay(gateway, done)
    const first = pay(gateway, waits, '/waits')
    await payAndLeave(gateway, `${waits}-left`, '/waits')
    await until(() => waiting.get(waits))
    await gateway.restart()
    assert.equal((await pay(gateway, done)).body, body)
    for (const key of [waits, `${waits}-left`]) {
      assert.equal(codeOf(await pay(gateway, key, '/waits')), 'idempotency_in_progress')
      answer(waiting.get(key) as ServerResponse)
    }
    assert.equal((await first).status, 201)
    assert.equal((await pay(gateway, waits, '/waits')).body, (await first).body)
    const left = await until(async () => {
      const response = await pay(gateway, `${waits}-left`, '/waits')
      return response.status === 409 ? undefined : response
    })
    assert.deepEqual([left.status, left.headers['idempotency-replayed']], [201, 'true'])
    for (const key of [done, waits, `${waits}-left`]) assert.equal(calls.get(key), 1)
  })

  it('under load leaves no key unknown and sends no request twice', async () => {
    const keys: string[] = []
    let over = false
    const clients = Array.from({ length: 8 }, async () => {
      while (!over) {
        const key = randomUUID()
        keys.push(key)
        const { status, body } = await pay(gateway, key, '/slow')
        const again = await pay(gateway, key, '/slow')
        assert.deepEqual([status, again.status, again.body], [201, 201, body])
      }
    })
    for (let i = 0; i < RESTARTS; i++) await gateway.restart()
    over = true
    await Promise.all(clients)
    for (const key of keys) assert.equal(calls.get(key), 1)
  })
})
