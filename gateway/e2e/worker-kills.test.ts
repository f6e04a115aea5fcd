import assert from 'node:assert/strict'
import { Agent } from 'node:http'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { contradicted, unpaired } from './audit-pairs.ts'
import { call } from './client.ts'
import { INSPECTABLE, inspectThreads, type Threads } from './inspector.ts'
import { LONGER } from './long-runs.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream } from './test-upstream.ts'

const WORKERS = 3
const LIMIT = 700
/** More would wait seconds for the one after them. */
const DEATHS = 6
const DEATH = [
  'setTimeout(() => process.exit(7))',
  'setImmediate(() => { throw new Error("injected") })',
  'queueMicrotask(() => { throw new Error("injected") })',
  'setTimeout(() => { throw new Error("injected") }, 30)',
]

test('workers that die at any moment, also their first, leave the gateway as it was', async () => {
  const upstream = await startUpstream((_req, res) => setTimeout(() => res.end('whole'), 8 * Math.random()))
  for (let run = 0; run < LONGER; run++) {
    const gateway = await startGateway({
      config: { upstream: upstream.url, routes: [{ path: '/*', auth: ['none'] }] },
      limits: [{ path: '/limited', limit: LIMIT, window: '1h', purpose: 'Any' }],
      // Threads leave no source maps beside their coverage.
      env: { GATEWAY_WORKERS: `${WORKERS}`, NODE_V8_COVERAGE: '', ...INSPECTABLE },
    })
    const load = startLoad(gateway)
    const threads = await inspectThreads(gateway)
    await until(() => (threads.seen.length >= WORKERS ? true : undefined))
    const killed = await killSome(threads)
    await until(() => (threads.seen.length > WORKERS ? true : undefined))
    await until(async () => ((await gateway.metric('gateway_workers_died_total')) > 0 ? true : undefined))
    await until(async () => ((await gateway.metric('gateway_workers')) === WORKERS ? true : undefined))
    await until(() => (load.refused() > 0 ? true : undefined))
    const { allowed, statusOf } = await load.end()
    threads.close()
    assert.equal(await gateway.end('SIGTERM'), 0, killed)
    assert.deepEqual(unpaired(gateway.audit()), [], killed)
    assert.deepEqual(contradicted(gateway.audit(), statusOf), [], killed)
    assert.ok(allowed <= LIMIT, `${allowed} requests: ${killed}`)
  }
  upstream.close()
})

/** @returns what was done, in words */
async function killSome({ seen, evaluate }: Threads): Promise<string> {
  const done: string[] = []
  for (let death = 0; death < DEATHS; death++) {
    const before = seen.length
    const name = seen[Math.floor(Math.random() * before)] as string
    const expression = DEATH[Math.floor(Math.random() * DEATH.length)] as string
    evaluate(name, expression)
    // One that has just been told to die is told again, to no effect.
    const untilMs = performance.now() + 1500
    while (death % 2 === 0 && seen.length === before && performance.now() < untilMs) await sleep(1)
    const pauseMs = Math.round(150 * Math.random())
    await sleep(pauseMs)
    done.push(`${name} ${expression}, ${pauseMs} ms`)
  }
  return done.join('; ')
}

/**
 * Requests on 30 connections, and readings of the metrics. `end` resolves to how many of the limited ones were allowed, and to
 * the status of each response by its request id.
 */
function startLoad({ url, adminUrl }: TestGateway) {
  let over = false
  let allowed = 0
  let refused = 0
  let asked = 0
  const statusOf = new Map<string, number>()
  const ask = async (address: string, agent?: Agent) => {
    const id = `load-${asked++}`
    const headers = { 'x-request-id': id }
    const response = await call(address, { headers, ...(agent && { agent }) }).catch(() => undefined)
    if (response?.status === 200 && address.endsWith('/limited')) allowed++
    if (response?.status === 429) refused++
    if (response !== undefined && address.startsWith(url)) statusOf.set(id, response.status)
    if (response?.status !== 200) await sleep(5)
  }
  const loads = Array.from({ length: 30 }, async (_, index) => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    while (!over) await ask(`${url}/${index % 2 === 0 ? 'limited' : 'free'}`, agent)
    agent.destroy()
  })
  const readings = async () => {
    while (!over) {
      await ask(`${adminUrl}/metrics`)
      await sleep(20)
    }
  }
  loads.push(readings())
  const end = async () => {
    over = true
    await Promise.all(loads)
    return { allowed, statusOf }
  }
  return { end, refused: () => refused }
}
