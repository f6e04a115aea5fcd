import type { Child } from './child.ts'
import type { LoadJob, LoadReply, LoadResult } from './load-job.ts'
import type { Measure } from './report.ts'

/** Lets the load generator do one job. Rejects for a wrong response or none. */
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

/** Throws when there was no response. */
export function measureOf(
  result: LoadResult,
  run: { readonly load: string; readonly round: number },
): Measure {
  const { responses, seconds, cpu, storeUs, latencyUs, latenessUs } = result
  if (responses === 0) throw new Error('not one response in the measured time')
  const measure = {
    ...run,
    perSecond: responses / seconds,
    userUs: cpu.userUs / responses,
    systemUs: cpu.systemUs / responses,
    ...(storeUs !== undefined && { storeUs: storeUs / responses }),
  }
  if (latencyUs === undefined || latenessUs === undefined) return measure
  return { ...measure, latencyUs, latenessP99Us: latenessUs.p99 }
}
