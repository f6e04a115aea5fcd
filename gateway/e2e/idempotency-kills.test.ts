import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { call, type ReceivedResponse } from './client.ts'
import { LONGER } from './long-runs.ts'
import { startGateway, type TestGateway } from './running-gateway.ts'
import { startUpstream } from './test-upstream.ts'

/** 1,000 in a long run. */
const KILLS = LONGER === 1 ? 3 : 50 * LONGER
const CLIENTS = 8
/** So many keys of earlier runs are sent again after each kill. */
const EARLIER = 10

interface Counts {
  requests: number
  replayed: number
  unknown: number
  free: number
}

test('a gateway killed at any time under load sends no request twice and replays no wrong response', async (t) => {
  /** The service's responses for each key, in order. */
  const answers = new Map<string, string[]>()
  let answered = 0
  const upstream = await startUpstream((req, res) => {
    const key = String(req.headers['idempotency-key'])
    const body = JSON.stringify({ transfer: ++answered })
    answers.set(key, [...(answers.get(key) ?? []), body])
    req.resume()
    setTimeout(() => res.writeHead(201).end(body), 5 * Math.random())
  })
  let token = ''
  let dir: string | undefined
  let gateway: TestGateway | undefined
  after(() => {
    gateway?.kill()
    upstream.close()
  })
  const pay = (key: string): Promise<ReceivedResponse> =>
    call(`${gateway?.url}/transfers`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'idempotency-key': key },
      body: '{"amount":"12.50"}',
    })
  const start = async (run: number) => {
    // The token would expire during a long run.
    token = await upstream.issuer.token()
    gateway = await startGateway({
      config: {
        upstream: upstream.url,
        routes: [{ path: '/*', auth: ['bearer'], idempotency: { maxKeysPerCaller: 1_000_000 } }],
        audit: { durability: run % 4 === 3 ? 'synced' : 'written' },
      },
      ...(dir && { dir }),
    })
    dir = gateway.dir
  }
  const counts: Counts = { requests: 0, replayed: 0, unknown: 0, free: 0 }
  /** Keys of earlier runs, with their outcomes. */
  const known: (readonly [key: string, outcome: string])[] = []
  const outcomeOf = async (key: string): Promise<string> => {
    const calls = answers.get(key)?.length ?? 0
    const { status, body, headers } = await pay(key)
    const code = status === 409 ? JSON.parse(body).code : status
    if (headers['idempotency-replayed'] === 'true')
      assert.deepEqual([body], answers.get(key), 'replayed wrongly')
    else if (code === 201) assert.equal(calls, 0, 'sent twice')
    else assert.equal(code, 'idempotency_unknown')
    assert.ok((answers.get(key)?.length ?? 0) <= 1, 'sent twice')
    return headers['idempotency-replayed'] === 'true' ? 'replayed' : code === 201 ? 'free' : 'unknown'
  }
  await start(0)
  for (let run = 1; run <= KILLS; run++) {
    const sent: string[] = []
    const seen = new Map<string, string>()
    let over = false
    const clients = Array.from({ length: CLIENTS }, async () => {
      while (!over) {
        const key = randomUUID()
        sent.push(key)
        const first = await pay(key).catch(() => undefined)
        if (first !== undefined) seen.set(key, first.body)
      }
    })
    await sleep(100 + 200 * Math.random())
    const killed = gateway?.end('SIGKILL')
    over = true
    await Promise.all([killed, ...clients])
    await start(run)
    let unknown = 0
    for (const key of sent) {
      const outcome = await outcomeOf(key)
      counts[outcome as keyof Counts] += 1
      if (outcome === 'unknown') unknown += 1
      // A client that got a response gets the same body again, not only the status.
      if (seen.has(key)) assert.deepEqual([outcome, [seen.get(key)]], ['replayed', answers.get(key)])
      known.push([key, outcome])
    }
    counts.requests += sent.length
    assert.ok(unknown <= CLIENTS, `${unknown} unknown`)
    for (let i = 0; i < EARLIER; i++) {
      const [key = '', outcome] = known[Math.floor(known.length * Math.random())] ?? []
      assert.equal(await outcomeOf(key), outcome === 'free' ? 'replayed' : outcome)
    }
    if (run % 50 === 0) t.diagnostic(`${run} kills: ${JSON.stringify(counts)}`)
  }
  t.diagnostic(`${KILLS} kills: ${JSON.stringify(counts)}`)
})
