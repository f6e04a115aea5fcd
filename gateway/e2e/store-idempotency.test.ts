import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { countersign } from '../cli/program.test-support.ts'
import { NO_REDIS, type RedisServer, startRedis, storeAt } from '../store/redis-server.test-support.ts'
import { checkStore } from '../store/store-check.ts'
import { call, type ReceivedResponse } from './client.ts'
import { LONGER } from './long-runs.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { type StoreGroup, startGroup } from './store-group.ts'

/** 10,000 in a long run. */
const RACES = LONGER > 1 ? 10_000 : 100
const AT_ONCE = 10
/** 100 in a long run. */
const KILLS = LONGER > 1 ? 5 * LONGER : 1
const CLIENTS = 8
const OLD_LINE = 's'.repeat(32)
const BODY = '{"amount":"12.50"}'

describe('two gateways that share idempotency keys', { skip: NO_REDIS }, () => {
  const agent = new Agent({ keepAlive: true, maxSockets: 64 })
  const dir = mkdtempSync(join(tmpdir(), 'countersign-keys-'))
  const keyFileOf = (gateway: number) => join(dir, `key-${gateway}`)
  const routes = [
    { path: '/*', auth: ['bearer'], idempotency: { maxKeysPerCaller: 1_000_000 } },
    { path: '/local', auth: ['bearer'], idempotency: { onStoreFailure: 'local' } },
  ]
  /** Calls of the service by key. */
  const calls = new Map<string, number>()
  const waiting = new Map<string, ServerResponse>()
  let redis: RedisServer
  let group: StoreGroup
  let token: string

  const startOn = (server: RedisServer) =>
    startGroup({
      store: `redis://127.0.0.1:${server.port}`,
      gateways: 2,
      config: (gateway) => ({
        routes,
        idempotencyKeyFile: keyFileOf(gateway),
        onStoreFailure: { deadlineMs: 1000 },
      }),
      respond: (req, res) => {
        const key = String(req.headers['idempotency-key'])
        calls.set(key, (calls.get(key) ?? 0) + 1)
        if (req.url === '/waits') waiting.set(key, res)
        else if (req.url === '/slow')
          setTimeout(() => res.writeHead(201).end(`made ${key}`), 5 * Math.random())
        else res.writeHead(201, { location: `/transfers/${key}` }).end(`made ${key}`)
      },
    })

  before(async () => {
    for (const gateway of [0, 1]) writeFileSync(keyFileOf(gateway), OLD_LINE)
    redis = await startRedis()
    group = await startOn(redis)
    token = await group.upstream.issuer.token()
  })
  after(async () => {
    agent.destroy()
    // Kills also the process that a restart began.
    for (const gateway of group.gateways) gateway.kill()
    await group.stop()
    await redis.stop()
    rmSync(dir, { recursive: true })
  })

  const pay = (
    gateway: TestGateway | undefined,
    key: string,
    path = '/transfers',
    bearer = token,
    from = agent,
  ) =>
    call(`${gateway?.url}${path}`, {
      agent: from,
      method: 'POST',
      headers: { authorization: `Bearer ${bearer}`, 'idempotency-key': key },
      body: BODY,
    })
  /** Runs `idempotency show` with the files of one gateway. */
  const show = async (gateway: number, key: string, ...flags: string[]) => {
    const { dir: of } = group.gateways[gateway] as TestGateway
    const words = ['idempotency', 'show', '--json', '--key', key, '--caller', 'user-1', ...flags]
    const { stdout, ...rest } = await countersign(words, {
      GATEWAY_STORE: `redis://127.0.0.1:${redis.port}`,
      GATEWAY_CONFIG: join(of, 'gateway.json'),
      GATEWAY_DATA_DIR: join(of, 'data'),
    })
    const lines = stdout.split('\n').slice(0, -1)
    return { ...rest, shown: lines.map((line) => JSON.parse(line) as Partial<Record<string, string>>) }
  }
  const codeOf = (response: ReceivedResponse) => response.json<{ code?: string }>().code

  it('send a request once when two clients race with one key', async (test) => {
    const [one, other] = group.gateways
    let replays = 0
    const race = async () => {
      const key = randomUUID()
      const answers = await Promise.all([pay(one, key), pay(other, key)])
      assert.equal(calls.get(key), 1)
      const made = answers.filter(({ status }) => status === 201)
      assert.ok(made.length > 0 && made.every(({ body }) => body === `made ${key}`))
      replays += made.filter(({ headers }) => headers['idempotency-replayed'] === 'true').length
      for (const late of answers.filter(({ status }) => status !== 201))
        assert.equal(codeOf(late), 'idempotency_in_progress')
      const next = await pay(other, key)
      assert.deepEqual([next.status, next.body], [201, `made ${key}`])
      assert.equal(calls.get(key), 1)
    }
    for (let done = 0; done < RACES; done += AT_ONCE) await Promise.all(Array.from({ length: AT_ONCE }, race))
    test.diagnostic(`${RACES} races, ${replays} of them replayed at once`)
  })

  it('change their secret one after the other under load: keys are found, and no request is sent twice', async () => {
    const next = 'n'.repeat(32)
    const store = storeAt('single', [redis.port], { prefix: 'countersign', hashKey: undefined })
    const check = async (...lines: string[]) =>
      (await checkStore(store, { idempotencyKeyFile: lines })).faults.join()
    const edit = async (gateway: number, ...lines: string[]) => {
      writeFileSync(keyFileOf(gateway), `${lines.join('\n')}\n`)
      const reload = await call(`${group.gateways[gateway]?.adminUrl}/reload`, { method: 'POST' })
      assert.equal(reload.status, 200, reload.body)
      if (gateway === 0) assert.equal(await check(...lines), '')
    }
    const areFound = async (keys: readonly string[]) => {
      for (const key of keys)
        for (const gateway of group.gateways) assert.equal((await pay(gateway, key)).body, `made ${key}`)
    }
    /** Sends keys to one gateway, then to the other, during `run`. @returns the keys, which both must find */
    const underLoad = async (run: (keys: readonly string[]) => Promise<void>) => {
      const keys: string[] = []
      let isOver = false
      const clients = [group.gateways, group.gateways.toReversed()].map(async (gateways) => {
        while (!isOver) {
          const key = randomUUID()
          for (const gateway of gateways) assert.equal((await pay(gateway, key)).body, `made ${key}`)
          keys.push(key)
        }
      })
      await until(() => keys[1])
      await run(keys)
      isOver = true
      await Promise.all(clients)
      return keys
    }
    assert.equal(await check(OLD_LINE), '')
    assert.match(await check(next, OLD_LINE), /another "idempotencyKeyFile"/)
    const older = await underLoad(async (keys) => {
      for (const gateway of [0, 1]) await edit(gateway, OLD_LINE, next)
      for (const gateway of [0, 1]) await edit(gateway, next, OLD_LINE)
      await areFound(keys.slice(0, 2))
    })
    const younger = await underLoad(async () => {
      for (const gateway of [0, 1]) await edit(gateway, next)
    })
    await areFound(younger)
    for (const gateway of group.gateways)
      assert.equal(codeOf(await pay(gateway, older[0] ?? '')), 'idempotency_unavailable')
    for (const key of [...older, ...younger]) assert.equal(calls.get(key), 1)
  })

  it('send no request twice when one of them is killed at any time under load', async (test) => {
    const isReplay = (key: string, { body, headers }: ReceivedResponse) => {
      assert.deepEqual([body, headers['idempotency-replayed']], [`made ${key}`, 'true'])
      assert.equal(calls.get(key), 1)
    }
    /** Sends a request until it does not get 503, because on a busy machine the store may seem to be away. */
    const payInTime = (gateway: TestGateway | undefined, key: string) =>
      until(async () => {
        const answer = await pay(gateway, key, '/slow')
        return answer.status === 503 ? undefined : answer
      })
    const counts = { requests: 0, underWay: 0, left: 0 }
    /** Keys in progress without a gateway, until their lease ends. */
    const left: string[] = []
    for (let kill = 1; kill <= KILLS; kill++) {
      const victim = kill % 2
      const [killed, alive] = [group.gateways[victim], group.gateways[1 - victim]]
      /** Keys of requests to `killed` without a response. */
      const underWay = new Set<string>()
      const sent: string[] = []
      // The token would expire during a long run.
      token = await group.upstream.issuer.token()
      let isOver = false
      const clients = Array.from({ length: CLIENTS }, async (_, i) => {
        while (!isOver) {
          const key = randomUUID()
          sent.push(key)
          if (i % 2 === 0) underWay.add(key)
          const first = await payInTime(i % 2 === 0 ? killed : alive, key).catch(() => undefined)
          if (first === undefined) await sleep(5)
          const { status, body } = first ?? (await payInTime(alive, key))
          if (status === 201) assert.equal(body, `made ${key}`)
          else {
            assert.equal(JSON.parse(body).code, 'idempotency_in_progress')
            left.push(key)
          }
          if (first !== undefined) underWay.delete(key)
        }
      })
      await sleep(100 + 200 * Math.random())
      const atKill = new Set(underWay)
      const before = left.length
      await group.restart(victim)
      isOver = true
      await Promise.all(clients)
      const leftNow = new Set(left.slice(before))
      assert.ok([...leftNow].every((key) => atKill.has(key)))
      for (const key of sent) {
        const again = await payInTime(group.gateways[Math.random() < 0.5 ? 0 : 1], key)
        if (!leftNow.has(key) || again.status !== 409) isReplay(key, again)
        assert.ok((calls.get(key) ?? 0) <= 1, 'sent twice')
      }
      counts.requests += sent.length
      counts.underWay += [...underWay].filter((key) => atKill.has(key)).length
      counts.left = left.length
    }
    test.diagnostic(`${KILLS} kills: ${JSON.stringify(counts)}`)
    if (LONGER === 1) return
    const outcomes = { replayed: 0, called: 0, uncalled: 0 }
    for (const key of left) {
      const answer = await until(async () => {
        const next = await payInTime(group.gateways[0], key)
        return next.status === 409 && codeOf(next) === 'idempotency_in_progress' ? undefined : next
      })
      if (answer.status === 201) isReplay(key, answer)
      else assert.equal(codeOf(answer), 'idempotency_unknown')
      assert.ok((calls.get(key) ?? 0) <= 1, 'sent twice')
      outcomes[answer.status === 201 ? 'replayed' : calls.has(key) ? 'called' : 'uncalled'] += 1
    }
    test.diagnostic(`left in progress: ${JSON.stringify(outcomes)}`)
  })

  it('show the operator a key of the other gateway in the same form as a key of their own', async () => {
    const [key, waits] = [randomUUID(), randomUUID()]
    const [one] = group.gateways
    const { headers } = await pay(one, key)
    const [shown, ...more] = (await show(1, key)).shown
    assert.deepEqual(more, [])
    assert.deepEqual(
      { ...shown, since: undefined, keptUntil: undefined },
      {
        ...{ row: '/*', keptIn: 'the shared store', state: 'done', since: undefined, keptUntil: undefined },
        ...{ firstRequest: headers['x-request-id'], status: 201, isKept: true },
      },
    )
    const keptMs = Date.parse(shown?.keptUntil ?? '') - Date.parse(shown?.since ?? '')
    assert.ok(Math.abs(keptMs - 86_400_000) < 60_000)
    const first = pay(one, waits, '/waits')
    const res = await until(() => waiting.get(waits))
    const [begun] = (await show(1, waits)).shown
    assert.deepEqual([begun?.state, begun?.since, begun?.status], ['begun', undefined, undefined])
    res.writeHead(201).end()
    assert.equal((await first).headers['x-request-id'], begun?.firstRequest)
    assert.equal((await pay(group.gateways[1], waits, '/waits')).headers['idempotency-replayed'], 'true')
    const never = await show(1, randomUUID())
    assert.equal(never.status, 1)
    assert.match(
      never.stderr,
      /^no row has this key of this caller in the shared store; --client names an app/m,
    )
    const { status, stderr } = await show(1, key, '--client', 'app-1')
    assert.deepEqual([status, stderr], [1, 'no row has this key of this caller in the shared store\n'])
  })

  it('make a key unknown at the end of its lease if the gateway that began it is killed', async () => {
    const key = randomUUID()
    const [one, other] = group.gateways
    const lost = pay(one, key, '/waits').catch(() => undefined)
    await until(() => waiting.get(key))
    await group.restart(0)
    await lost
    assert.equal(codeOf(await pay(other, key, '/waits')), 'idempotency_in_progress')
    // Ends the lease of 30 s.
    for (const name of (await redis.command('KEYS', '*:*:*')) as string[]) {
      if (name.endsWith(':keys')) continue
      const value = String(await redis.command('GET', name))
      await redis.command('SET', name, value.replace(/^begun \d+/, 'begun 1'), 'PX', '60000')
    }
    const seen = async () =>
      (await show(0, key)).shown.map(({ state, firstRequest }) => [state, firstRequest])
    const before = await seen()
    assert.deepEqual(before, [['unknown', waiting.get(key)?.req.headers['x-request-id']]])
    assert.equal(codeOf(await pay(other, key, '/waits')), 'idempotency_unknown')
    assert.deepEqual(await seen(), before)
    assert.equal(codeOf(await pay(group.gateways[0], key, '/waits')), 'idempotency_unknown')
    assert.equal(calls.get(key), 1)
  })

  it('refuse requests with a key while the store is away, or go on alone if the row says so', async () => {
    const [one] = group.gateways
    const [key, begun] = [randomUUID(), randomUUID()]
    const first = pay(one, begun, '/waits')
    const res = await until(() => waiting.get(begun))
    redis.signal('SIGSTOP')
    const refused = await pay(one, key)
    assert.deepEqual([refused.status, codeOf(refused)], [503, 'idempotency_unavailable'])
    assert.equal(calls.get(key), undefined)
    const alone = [await pay(one, key, '/local'), await pay(one, key, '/local')]
    assert.deepEqual([...alone.map(({ status }) => status), calls.get(key)], [201, 201, 1])
    const away = await show(0, key)
    assert.deepEqual(
      [away.status, away.shown.map(({ row, state }) => [row, state])],
      [2, [['/local', 'done']]],
    )
    assert.match(away.stderr, /cannot ask the shared store: no reply of .* within 2 s/)
    res.writeHead(201).end('made late')
    redis.signal('SIGCONT')
    assert.equal((await first).body, 'made late')
    await group.storeIs('there')
    const next = await until(async () => {
      const answer = await pay(group.gateways[1], begun, '/waits')
      return answer.status === 201 ? answer : undefined
    })
    assert.deepEqual([next.body, calls.get(begun)], ['made late', 1])
    await pay(one, key, '/local')
    const places = (await show(0, key)).shown.map(({ row, keptIn }) => [row, keptIn])
    const data = join(one?.dir ?? '', 'data', 'idempotency')
    assert.deepEqual(places, [
      ['/local', data],
      ['/local', 'the shared store'],
    ])
  })

  it('keep keys in progress through a restart, also when their client has left', async () => {
    const [one, other] = group.gateways
    const [stays, goes] = [randomUUID(), randomUUID()]
    const first = pay(one, stays, '/waits')
    const left = new Agent()
    const lost = pay(one, goes, '/waits', token, left).catch(() => undefined)
    for (const key of [stays, goes]) await until(() => waiting.get(key))
    left.destroy()
    await lost
    await one?.restart()
    for (const key of [stays, goes]) {
      assert.equal(codeOf(await pay(other, key, '/waits')), 'idempotency_in_progress')
      waiting.get(key)?.writeHead(201).end(`made ${key}`)
    }
    assert.equal((await first).body, `made ${stays}`)
    for (const key of [stays, goes]) {
      const next = await until(async () => {
        const answer = await pay(one, key, '/waits')
        return answer.status === 409 ? undefined : answer
      })
      assert.deepEqual([next.status, next.body, calls.get(key)], [201, `made ${key}`, 1])
    }
  })

  it('share no key with a gateway that has another secret', async () => {
    const key = randomUUID()
    const other = join(dir, 'other')
    writeFileSync(other, 'o'.repeat(32))
    const stranger = await startGateway({
      config: { upstream: group.upstream.url, routes, idempotencyKeyFile: other },
      env: { GATEWAY_STORE: `redis://127.0.0.1:${redis.port}` },
    })
    try {
      assert.equal((await pay(group.gateways[1], key)).status, 201)
      const refused = await pay(stranger, key)
      assert.deepEqual([codeOf(refused), calls.get(key)], ['idempotency_unavailable', 1])
    } finally {
      await stranger.end()
    }
  })

  /** Restarts the store between two requests with one key, at two gateways. @returns the calls of the service */
  async function callsOverOutage(server: RedisServer, { gateways, upstream }: StoreGroup): Promise<unknown> {
    const key = randomUUID()
    const bearer = await upstream.issuer.token()
    assert.equal((await pay(gateways[0], key, '/transfers', bearer)).status, 201)
    await server.kill()
    await server.restart()
    const again = await until(async () => {
      const answer = await pay(gateways[1], key, '/transfers', bearer)
      return answer.status === 503 ? undefined : answer
    })
    assert.equal(again.status, 201)
    return calls.get(key)
  }

  it('send a request once when the store keeps its data', async () => {
    const server = await startRedis(['--appendonly', 'yes', '--appendfsync', 'always'])
    const own = await startOn(server)
    try {
      assert.equal(await callsOverOutage(server, own), 1)
    } finally {
      await own.stop()
      await server.stop()
    }
  })

  it('send a request again after the store has lost its data', async () => {
    assert.equal(await callsOverOutage(redis, group), 2)
  })
})
