import type { Tokens } from './bench-tokens.ts'
import type { CertificateFiles } from './certificate.ts'
import type { LoadRequest } from './load-job.ts'

/** How `npm run gateway` starts Node. Every contender on Node has the same. */
export const YOUNG_OBJECTS = ['--min-semi-space-size=32', '--max-semi-space-size=32']

/** What every contender is started with. */
export interface ContenderSetup {
  /** Its own directory: configuration, logs, data. */
  readonly dir: string
  readonly upstreamPort: number
  readonly tokens: Tokens
  /** It listens with TLS alone, or beside its other port. */
  readonly tls?: CertificateFiles | undefined
  /** True when clients speak HTTP/2. */
  readonly http2?: boolean
  /** The upstream speaks TLS as localhost, with a certificate of this authority (PEM). */
  readonly upstreamCaFile?: string | undefined
  /** Added to the environment of the gateway, and of nobody else. */
  readonly gatewayEnv: Readonly<Record<string, string>>
  /** Processors it may use, as taskset(1) takes them; undefined leaves that to the kernel. */
  readonly cpus: string | undefined
}

/** A contender that serves. */
export interface RunningContender {
  /** Where it listens: connections are divided among them evenly. */
  readonly ports: readonly [number, ...number[]]
  /** Each stands for its child processes too. */
  readonly pids: readonly [number, ...number[]]
  /** Processes of its store, whose CPU is told apart. */
  readonly storePids?: readonly number[]
  /** Frees the disk space of its log. Called between runs. */
  tidy(): void
  end(): Promise<void>
}

/** One of those that are measured side by side. */
export interface Contender {
  readonly name: string
  /** What it does for a request, in a few words, for the reader of the table. */
  readonly work: string
  /** True when it refuses a forged token. */
  readonly authenticates: boolean
  /** Sent to it instead of what the scenario sends. */
  readonly request?: Partial<LoadRequest>
  /** Installs it if that needs no consent. @returns why it could not. */
  readonly install?: () => string | undefined
  /** Its version, or undefined when it is not installed. */
  version(): string | undefined
  /** Rejects when it does not begin to serve; the message says why. */
  start(setup: ContenderSetup): Promise<RunningContender>
}
