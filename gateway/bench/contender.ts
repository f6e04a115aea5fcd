import type { Tokens } from './bench-tokens.ts'

/** What every contender is started with. */
export interface Ground {
  /** Its own directory: configuration, logs, data. */
  readonly dir: string
  readonly upstreamPort: number
  readonly tokens: Tokens
  /** Added to the environment of the gateway, and of nobody else. */
  readonly gatewayEnv: Readonly<Record<string, string>>
  /** Processors it may use, as taskset(1) takes them; undefined leaves that to the kernel. */
  readonly cpus: string | undefined
}

/** A contender that serves. */
export interface RunningContender {
  /** Where it listens: connections are divided among them evenly. */
  readonly ports: readonly [number, ...number[]]
  /** Each with the family that it has begotten. */
  readonly pids: readonly [number, ...number[]]
  /** Gives back the disk that its log has taken. Called between runs. */
  tidy(): void
  end(): Promise<void>
}

/** One of those that are measured side by side. */
export interface Contender {
  readonly name: string
  /** What it does for a request, in a few words, for the reader of the table. */
  readonly work: string
  /** It refuses a forged token. */
  readonly authenticates: boolean
  /** Installs it where that can be done without asking. @returns why it could not be. */
  readonly install?: () => string | undefined
  /** Its version, or undefined when it is not installed. */
  version(): string | undefined
  /** Rejects when it does not begin to serve; the message says why. */
  start(ground: Ground): Promise<RunningContender>
}
