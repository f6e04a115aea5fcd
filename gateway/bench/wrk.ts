import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { cpuTimeOf } from './kernel.ts'
import type { LoadJob, LoadResult } from './load-job.ts'

/** Has wrk send the job's request with one token, in a closed loop. Rejects for any response but 2xx and 3xx, and for a broken connection. */
export async function carryOutByWrk({
  request,
  ports,
  connections,
  measureMs,
  pids,
  tls,
}: LoadJob): Promise<LoadResult> {
  const [token] = readFileSync(request.tokensFile, 'latin1').split('\n', 1)
  const seconds = Math.max(1, Math.round(measureMs / 1000))
  const url = `${tls === true ? 'https' : 'http'}://127.0.0.1:${ports[0]}${request.path}`
  const load = ['-t1', `-c${connections}`, `-d${seconds}s`]
  const before = cpuTimeOf(pids)
  const child = spawn('wrk', [...load, '-H', `Authorization: Bearer ${token}`, url])
  let text = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (piece: string) => {
      text += piece
    })
  }
  const [code] = await once(child, 'close')
  const after = cpuTimeOf(pids)
  const responses = Number(/(\d+) requests in/.exec(text)?.[1])
  if (code !== 0 || !(responses > 0) || /Non-2xx|Socket errors/.test(text))
    throw new Error(`wrk: ${text.trim()}`)
  const cpu = { userUs: after.userUs - before.userUs, systemUs: after.systemUs - before.systemUs }
  return { responses, seconds, cpu, latencyUs: undefined, latenessUs: undefined }
}
