import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { cpuTimeOf } from './kernel.ts'
import type { LoadJob, LoadResult } from './load-job.ts'

/** Foreign load generators. They send one token, in a closed loop. */
export type OtherGenerator = keyof typeof OTHER_GENERATORS

interface Run {
  readonly job: LoadJob
  readonly url: string
  readonly authorization: string
  readonly seconds: number
}

interface Generator {
  readonly argumentsOf: (run: Run) => readonly string[]
  /** Returns undefined when a response was not 2xx or 3xx, or a connection broke. */
  readonly responsesIn: (text: string) => number | undefined
}

const WRK: Generator = {
  argumentsOf: ({ job, url, authorization, seconds }) => [
    ...['-t1', `-c${job.connections}`, `-d${seconds}s`],
    ...['-H', authorization, url],
  ],
  responsesIn: (text) =>
    /Non-2xx|Socket errors/.test(text) ? undefined : Number(/(\d+) requests in/.exec(text)?.[1]),
}

/** HTTP/2 only. */
const H2LOAD: Generator = {
  argumentsOf: ({ job, url, authorization, seconds }) => [
    ...['-t1', `-c${job.connections}`, `-m${job.streams ?? 1}`, `-D${seconds}`],
    ...['-H', authorization, url],
  ],
  responsesIn: (text) =>
    /protocol: h2/.test(text) && / 0 failed, 0 errored, 0 timeout/.test(text) && / 0 4xx, 0 5xx/.test(text)
      ? Number(/(\d+) succeeded/.exec(text)?.[1])
      : undefined,
}

const OTHER_GENERATORS = { wrk: WRK, h2load: H2LOAD } as const

/** Lets another generator do the job. Rejects for a broken connection, or a status other than 2xx and 3xx. */
export async function carryOutBy(program: OtherGenerator, job: LoadJob): Promise<LoadResult> {
  const { request, ports, measureMs, pids, tls } = job
  const [token] = readFileSync(request.tokensFile, 'latin1').split('\n', 1)
  const seconds = Math.max(1, Math.round(measureMs / 1000))
  const url = `${tls === true ? 'https' : 'http'}://127.0.0.1:${ports[0]}${request.path}`
  const { argumentsOf, responsesIn } = OTHER_GENERATORS[program]
  const run = { job, url, authorization: `Authorization: Bearer ${token}`, seconds }
  const before = cpuTimeOf(pids)
  const child = spawn(program, argumentsOf(run))
  let text = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (piece: string) => {
      text += piece
    })
  }
  const [code] = await once(child, 'close')
  const after = cpuTimeOf(pids)
  const responses = responsesIn(text)
  if (code !== 0 || responses === undefined || !(responses > 0)) throw new Error(`${program}: ${text.trim()}`)
  const cpu = { userUs: after.userUs - before.userUs, systemUs: after.systemUs - before.systemUs }
  return { responses, seconds, cpu, latencyUs: undefined, latenessUs: undefined }
}
