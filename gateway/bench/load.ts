import { readFileSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import type { LoadJob, LoadReply, LoadRequest } from './load-job.ts'
import { type Cycle, LoadRun } from './load-run.ts'

// The load generator, in a process of its own: does one job after the other for its parent.

const TICK_MS = 0.25
const prepared = new Map<string, readonly Buffer[]>()
/** By the ports of a contender. */
const cycles = new Map<string, Cycle>()

process.on('message', (job: LoadJob) => {
  carryOut(job).then(
    (reply) => process.send?.(reply),
    (error: unknown) => process.send?.({ fault: error instanceof Error ? error.message : String(error) }),
  )
})
process.on('disconnect', () => process.exit(0))

async function carryOut(job: LoadJob): Promise<LoadReply> {
  const run = new LoadRun(job, requestsOf(job.request), cycleOf(job))
  if (job.perSecond === undefined) return { result: await run.closedLoop() }
  // Node's timers have a resolution of 1 ms, longer than most responses take.
  const ticker = new Worker(new URL('./ticker.ts', import.meta.url), { workerData: TICK_MS })
  ticker.on('message', () => run.tick())
  try {
    return { result: await run.openLoop(job.perSecond) }
  } finally {
    await ticker.terminate()
  }
}

function cycleOf({ ports }: LoadJob): Cycle {
  const key = ports.join()
  const cycle = cycles.get(key) ?? { turn: 0 }
  cycles.set(key, cycle)
  return cycle
}

/** All requests as bytes, made once for all runs. */
function requestsOf(request: LoadRequest): readonly Buffer[] {
  const key = JSON.stringify(request)
  let requests = prepared.get(key)
  if (requests === undefined) {
    const tokens = readFileSync(request.tokensFile, 'latin1').split('\n').slice(0, request.tokens)
    requests = tokens.map((token, i) => Buffer.from(requestText(request, { token, caller: i }), 'latin1'))
    prepared.set(key, requests)
  }
  return requests
}

function requestText(
  { method, path, body: template, fields = [] }: LoadRequest,
  { token, caller }: { readonly token: string; readonly caller: number },
): string {
  const body = template.replace('$caller', String(caller))
  const head = [
    `${method} ${path} HTTP/1.1`,
    'Host: api.example.test',
    'User-Agent: bench/1',
    'Accept: application/json',
    `Authorization: Bearer ${token}`,
    ...fields,
  ]
  if (body !== '') head.push('Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`)
  return `${head.join('\r\n')}\r\n\r\n${body}`
}
