import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Settings } from '../config/settings.ts'
import { configRoutes } from './admin-routes.ts'
import { ConfigInForce } from './config-in-force.ts'

const SETTINGS = {
  configFile: 'gateway.json',
  limitsFile: 'limits.json',
  audit: {},
  routes: [],
} as unknown as Settings

it('/reload is for operators, and reads the files once for all who ask at the same time', async () => {
  const parts = { version: '1.2.3', settings: SETTINGS, limits: { value: { rows: [], plans: new Map() } } }
  const config = new ConfigInForce({ ...parts, clients: undefined, tls: undefined })
  let reloads = 0
  const routes = configRoutes(config, async () => {
    reloads += 1
    if (reloads > 1) config.failed('limits', [{ file: 'limits.json', path: '$', reason: 'is bad' }])
  })
  assert.deepEqual(
    routes.map(({ path, method, access }) => `${method} ${path} ${access}`),
    ['GET /config operator', 'POST /reload operator'],
  )
  const get = async () => (await routes[0]?.respond({} as never))?.body
  assert.equal(await get(), await get())
  const post = () => routes[1]?.respond({} as never)
  const [one, other] = await Promise.all([post(), post()])
  assert.equal(reloads, 1)
  assert.equal(one, other)
  assert.equal(one?.status, 200)
  assert.deepEqual(JSON.parse(String(one?.body)), {
    gateway: { file: 'gateway.json', result: 'unchanged', faults: [], needsRestart: [] },
    limits: { file: 'limits.json', result: 'unchanged', faults: [], needsRestart: [] },
  })
  const bad = await post()
  assert.equal(bad?.status, 422)
  assert.deepEqual(JSON.parse(String(bad?.body)).limits.faults, ['limits.json: $: is bad'])
  assert.match(String(await get()), /limits\.json: \$: is bad/)
})

it('/reload during a reload reads the files once more, because an edit may have come after the first reading', async () => {
  const parts = { version: '1.2.3', settings: SETTINGS, limits: { value: { rows: [], plans: new Map() } } }
  const config = new ConfigInForce({ ...parts, clients: undefined, tls: undefined })
  const ends: (() => void)[] = []
  const [, route] = configRoutes(config, () => new Promise((done) => ends.push(done)))
  const post = () => Promise.resolve(route?.respond({} as never))
  const turn = () => new Promise((done) => setImmediate(done))
  const first = post()
  await turn()
  const [second, third] = [post(), post()]
  await turn()
  assert.equal(ends.length, 1)
  ends[0]?.()
  assert.equal((await first)?.status, 200)
  await turn()
  assert.equal(ends.length, 2, 'one more for both')
  config.failed('limits', [{ file: 'limits.json', path: '$', reason: 'is bad' }])
  ends[1]?.()
  for (const { status } of [await second, await third] as { status: number }[]) assert.equal(status, 422)
})
