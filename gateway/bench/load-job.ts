import type { CpuTime } from './kernel.ts'

export interface LoadRequest {
  readonly method: 'GET' | 'POST'
  readonly path: string
  /** Empty: no body. `$caller` stands for the token's number. */
  readonly body: string
  /** Further header lines. `REQUEST-NUMBER--` becomes a number that no other request has, if `order` is `own`. */
  readonly fields?: readonly string[]
  /** The client signs by fapi-2. */
  readonly signed?: boolean
  readonly tokensFile: string
  /** How many tokens of the file are used. */
  readonly tokens: number
  /** Which token comes next: the connection's own, the next of all, or a random one. */
  readonly order: 'own' | 'cyclic' | 'random'
  /** Bytes of the response's body; another length is a fault. Undefined: any is good. */
  readonly responseBytes: number | undefined
}

/** A run against one contender. */
export interface LoadJob {
  /** Connections are divided among them evenly. */
  readonly ports: readonly number[]
  readonly request: LoadRequest
  /** The signing client's key: ES256, in PEM. */
  readonly signingKeyFile?: string
  /** Each has at most one request at once. */
  readonly connections: number
  /** HTTP/2: requests at once on a connection. Default: one. */
  readonly streams?: number | undefined
  /** Uses TLS without checking the certificate. */
  readonly tls?: boolean
  /** Sends each request on a new connection; `resumed` resumes an earlier session, or fails. */
  readonly renewal?: 'new' | 'resumed' | undefined
  /** Further connections without requests. */
  readonly idleConnections: number
  readonly warmUpMs: number
  readonly measureMs: number
  /** The rate of an open loop. Undefined: a closed loop, where each connection sends after each response. */
  readonly perSecond: number | undefined
  /** Processes whose CPU time counts during the measured time. */
  readonly pids: readonly number[]
  /** The store's processes, whose CPU time is counted apart. */
  readonly storePids?: readonly number[]
}

/** Quantiles in µs, to three figures. */
export interface Quantiles {
  readonly count: number
  readonly p50: number
  readonly p99: number
  readonly p999: number
}

export interface LoadResult {
  /** Good responses in the measured time. */
  readonly responses: number
  readonly seconds: number
  /** CPU of the job's `pids` in the measured time. */
  readonly cpu: CpuTime
  /** User and system time of `storePids`, in µs. */
  readonly storeUs?: number
  /** Open loop only: µs from the intended start to the last byte. */
  readonly latencyUs: Quantiles | undefined
  /** Open loop only: how many µs late the generator noticed that a request was due. */
  readonly latenessUs: Quantiles | undefined
}

export type LoadReply = { readonly result: LoadResult } | { readonly fault: string }
