import type { HistogramCounts } from './histogram.ts'
import type { CpuTime } from './kernel.ts'

/** What is asked, over and over. */
export interface LoadRequest {
  readonly method: 'GET' | 'POST'
  readonly path: string
  /** Empty: no body. */
  readonly body: string
  /** One token a line. */
  readonly tokensFile: string
  /** How many of them, from the first. */
  readonly tokens: number
  /** Which token comes next: the connection's own, the next of all, or any. */
  readonly order: 'own' | 'cyclic' | 'random'
  /** Length of the answer's body in bytes: any other is a fault. */
  readonly answerBytes: number
}

/** One run of the load generator against one contender. */
export interface LoadJob {
  /** Connections are divided among them evenly. */
  readonly ports: readonly number[]
  readonly request: LoadRequest
  /** Each has at most one request under way. */
  readonly connections: number
  /** Opened beside them; nothing is ever sent there. */
  readonly idleConnections: number
  readonly warmUpMs: number
  readonly measureMs: number
  /** Undefined: closed loop, each connection asks again when it has its answer. Otherwise the rate of an open loop. */
  readonly perSecond: number | undefined
  /** Processes whose CPU time is read when the measured time begins and when it ends. */
  readonly pids: readonly number[]
}

export interface LoadResult {
  /** Good answers within the measured time. */
  readonly answers: number
  readonly seconds: number
  /** Of the processes named in the job, during the measured time. */
  readonly cpu: CpuTime
  /** Open loop only: µs from the intended start to the last byte. */
  readonly latency: HistogramCounts | undefined
  /** Open loop only: µs by which the generator itself noticed late that a request was due. */
  readonly lateness: HistogramCounts | undefined
}

/** What the load generator says to a job. */
export type LoadReply = { readonly result: LoadResult } | { readonly fault: string }
