import type { Tokens } from './bench-tokens.ts'
import type { CertificateFiles } from './certificate.ts'
import type { LoadRequest } from './load-job.ts'

/** Node's options in `npm run gateway`, and for every contender on Node. */
export const YOUNG_OBJECTS = ['--min-semi-space-size=32', '--max-semi-space-size=32']

export interface ContenderSetup {
  /** Its own directory for configuration, logs, data. */
  readonly dir: string
  readonly upstreamPort: number
  readonly tokens: Tokens
  /** If set, the contender listens with TLS, instead of or besides plain HTTP. */
  readonly tls?: CertificateFiles | undefined
  readonly http2?: boolean
  /** If set, the upstream speaks TLS as localhost, with a certificate of this authority (PEM). */
  readonly upstreamCaFile?: string | undefined
  /** For the gateway only. */
  readonly gatewayEnv: Readonly<Record<string, string>>
  /** Processors, as taskset(1) takes them; undefined leaves them to the kernel. */
  readonly cpus: string | undefined
}

export interface RunningContender {
  /** Connections are divided among them evenly. */
  readonly ports: readonly [number, ...number[]]
  /** Their child processes count too. */
  readonly pids: readonly [number, ...number[]]
  /** The store's processes, whose CPU is reported apart. */
  readonly storePids?: readonly number[]
  /** Frees its log's disk space between runs. */
  tidy(): void
  end(): Promise<void>
}

export interface Contender {
  readonly name: string
  /** What it does for a request. */
  readonly work: string
  /** True when it refuses a forged token. */
  readonly authenticates: boolean
  /** Replaces parts of the scenario's request. */
  readonly request?: Partial<LoadRequest>
  /** Installs it if that needs no consent. Returns the reason when it fails. */
  readonly install?: () => string | undefined
  /** Undefined when it is not installed. */
  version(): string | undefined
  /** Rejects with the reason when it does not begin to serve. */
  start(setup: ContenderSetup): Promise<RunningContender>
}
