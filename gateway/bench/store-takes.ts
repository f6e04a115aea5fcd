import { parseArgs } from 'node:util'
import { startRedis, storeAt, until } from '../store/redis-server.test-support.ts'
import { SharedStore } from '../store/shared-store.ts'
import type { SharedRow } from '../store/shared-takes.ts'

/**
 * `npm run bench:store`: measures CPU per decision of the shared store, in this process and in redis-server, for takes
 * of many callers at once, without a gateway.
 */

interface Shape {
  readonly name: string
  readonly row: SharedRow
  readonly callers: number
  readonly atOnce: number
}

const WARM_UP_MS = 500

const options = parseArgs({
  options: { seconds: { type: 'string', default: '3' }, runs: { type: 'string', default: '3' } },
})
const seconds = Number(options.values.seconds)
const runs = Number(options.values.runs)

const minute = (identity: string, limit: number): SharedRow => ({ identity, rule: `${limit} 60000 1` })
const SHAPES: readonly Shape[] = [
  { name: '60 a minute, allowed', row: minute('a', 60), callers: 500_000, atOnce: 64 },
  { name: '60 a minute, refused', row: minute('b', 60), callers: 50, atOnce: 64 },
  {
    name: '1,000 a second, log',
    row: { identity: 'c', rule: '1000 1000 1' },
    callers: 200,
    atOnce: 64,
  },
  { name: '100,000 a minute, slices', row: minute('d', 100_000), callers: 100, atOnce: 64 },
  { name: '60 a minute, allowed', row: minute('e', 60), callers: 500_000, atOnce: 8 },
  { name: '60 a minute, allowed', row: minute('f', 60), callers: 500_000, atOnce: 1 },
]

const server = await startRedis()
const silent = (): void => undefined
const store = new SharedStore(storeAt('single', [server.port]), {
  onAway: silent,
  onBack: silent,
  onFault: silent,
})
await until(() => store.wasReached && !store.breaker.isOpen, 'the store')

process.stdout.write('shape                     at once   store µs   here µs   decisions/s   p50 ms\n')
for (const shape of SHAPES) {
  const results = []
  for (let run = 0; run < runs; run++) results.push(await measure(shape))
  results.sort((a, b) => a.storeUs - b.storeUs)
  const { storeUs, hereUs, perSecond, p50Ms } = results[Math.floor(results.length / 2)] ?? {
    storeUs: 0,
    hereUs: 0,
    perSecond: 0,
    p50Ms: 0,
  }
  const columns = [
    storeUs.toFixed(2).padStart(10),
    hereUs.toFixed(2).padStart(9),
    perSecond.toFixed(0).padStart(13),
    p50Ms.toFixed(2).padStart(8),
  ]
  process.stdout.write(`${shape.name.padEnd(26)}${String(shape.atOnce).padStart(7)} ${columns.join(' ')}\n`)
}
store.close()
await server.stop()

async function measure(shape: Shape) {
  await server.command('FLUSHALL')
  await take(shape, WARM_UP_MS)
  const storeBefore = await server.cpuUs()
  const hereBefore = process.cpuUsage()
  const beganMs = performance.now()
  const latencies = await take(shape, seconds * 1000)
  const here = process.cpuUsage(hereBefore)
  const decisions = latencies.length
  const storeUs = ((await server.cpuUs()) - storeBefore) / decisions
  latencies.sort()
  return {
    storeUs,
    hereUs: (here.user + here.system) / decisions,
    perSecond: decisions / ((performance.now() - beganMs) / 1000),
    p50Ms: latencies[decisions >> 1] ?? Number.NaN,
  }
}

/** Returns each take's latency in milliseconds. */
function take({ row, callers, atOnce }: Shape, forMs: number): Promise<Float64Array> {
  const latencies = new Float64Array(5_000_000)
  const endMs = performance.now() + forMs
  const names = Array.from({ length: callers }, (_, i) => `caller-${i}`)
  let count = 0
  let open = atOnce
  let next = 0
  return new Promise((resolve) => {
    const one = () => {
      const sentMs = performance.now()
      if (sentMs > endMs || count === latencies.length) {
        if (--open === 0) resolve(latencies.subarray(0, count))
        return
      }
      next = next + 1 === callers ? 0 : next + 1
      store.takes.take(row, names[next] ?? '', (decided) => {
        // On a busy machine the server can be late.
        if (decided === undefined) return void setTimeout(one, 5)
        latencies[count++] = performance.now() - sentMs
        one()
      })
    }
    for (let i = 0; i < atOnce; i++) one()
  })
}
