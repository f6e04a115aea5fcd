import type { Child } from './child.ts'
import { Histogram } from './histogram.ts'
import type { LoadJob, LoadReply, LoadResult } from './load-job.ts'
import type { Measure } from './report.ts'

/** Has the load generator carry out one job. Rejects when the contender answered wrongly, or not. */
export async function carryOut(load: Child, job: LoadJob): Promise<LoadResult> {
  const { promise, resolve, reject } = Promise.withResolvers<LoadReply>()
  const gone = () => reject(new Error(`the load generator ended: ${load.said()}`))
  load.process.once('message', resolve)
  load.process.once('exit', gone)
  try {
    load.process.send(job)
    const reply = await promise
    if ('fault' in reply) throw new Error(reply.fault)
    return reply.result
  } finally {
    load.process.off('message', resolve)
    load.process.off('exit', gone)
  }
}

/** Throws when nothing was answered. */
export function measureOf(
  result: LoadResult,
  run: { readonly load: string; readonly round: number },
): Measure {
  const { answers, seconds, cpu, latency, lateness } = result
  if (answers === 0) throw new Error('not one answer in the measured time')
  const measure = {
    ...run,
    perSecond: answers / seconds,
    userUs: cpu.userUs / answers,
    systemUs: cpu.systemUs / answers,
  }
  if (latency === undefined || lateness === undefined) return measure
  const waits = new Histogram()
  waits.add(latency)
  const late = new Histogram()
  late.add(lateness)
  return {
    ...measure,
    latencyUs: { p50: waits.quantile(0.5), p99: waits.quantile(0.99), p999: waits.quantile(0.999) },
    latenessP99Us: late.quantile(0.99),
  }
}
