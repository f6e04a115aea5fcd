import type { CpuTime } from './kernel.ts'

/** The request that is repeated. */
export interface LoadRequest {
  readonly method: 'GET' | 'POST'
  readonly path: string
  /** Empty: no body. `$caller` in it stands for the number of the token. */
  readonly body: string
  /** Further header lines. `REQUEST-NUMBER--` in one is a number that no other request has; `order` must be `own`. */
  readonly fields?: readonly string[]
  /** True: the client signs requests by fapi-2. */
  readonly signed?: boolean
  /** One token per line. */
  readonly tokensFile: string
  /** How many of them are used. */
  readonly tokens: number
  /** Which token is next: the connection's own, the next of all, or a random one. */
  readonly order: 'own' | 'cyclic' | 'random'
  /** Length of the response's body in bytes; any other length is a fault. Undefined: any length is good. */
  readonly responseBytes: number | undefined
}

/** One run of the load generator against one contender. */
export interface LoadJob {
  /** Connections are divided among them evenly. */
  readonly ports: readonly number[]
  readonly request: LoadRequest
  /** Key of the client that signs: ES256, in PEM. */
  readonly signingKeyFile?: string
  /** Each has at most one request under way. */
  readonly connections: number
  /** HTTP/2: requests under way on each connection. Default: one. */
  readonly streams?: number | undefined
  /** True: with TLS; the certificate is not checked. */
  readonly tls?: boolean
  /** Each request on a connection of its own; `resumed` goes on with a session of an earlier one, and fails where it cannot. */
  readonly renewal?: 'new' | 'resumed' | undefined
  /** Further connections, on which nothing is sent. */
  readonly idleConnections: number
  readonly warmUpMs: number
  readonly measureMs: number
  /** Undefined: closed loop, each connection sends the next request after its response. Otherwise the rate of an open loop. */
  readonly perSecond: number | undefined
  /** Processes whose CPU time is read when the measured time begins and when it ends. */
  readonly pids: readonly number[]
  /** Processes of the store, whose CPU time is read likewise. */
  readonly storePids?: readonly number[]
}

/** Quantiles of times in µs, to three figures. */
export interface Quantiles {
  readonly count: number
  readonly p50: number
  readonly p99: number
  readonly p999: number
}

export interface LoadResult {
  /** Good responses within the measured time. */
  readonly responses: number
  readonly seconds: number
  /** CPU time of the processes named in the job, during the measured time. */
  readonly cpu: CpuTime
  /** User and system time of the store named in the job, in µs. */
  readonly storeUs?: number
  /** Open loop only: µs from the intended start to the last byte. */
  readonly latencyUs: Quantiles | undefined
  /** Open loop only: µs by which the generator itself noticed late that a request was due. */
  readonly latenessUs: Quantiles | undefined
}

/** The load generator's reply to a job. */
export type LoadReply = { readonly result: LoadResult } | { readonly fault: string }
