import { readFileSync } from 'node:fs'
import { unreadable } from '../../config/load-file.ts'
import { BINARY_DISK, FileWatch } from '../../config/reload/watch.ts'
import { type Chain, judgeStaple, type Staple, type Stapler } from '../../tls/stapling/stapler.ts'
import type { Reports } from './reload-reports.ts'
import { reportedStapler, type StapleSource } from './reported-stapler.ts'

/** How often the time is looked at. */
const CHECK_MS = 10_000
/** How often a faulty file is read before it is called so: it may be half written. */
const DOUBTFUL_LOOKS = 3

export interface WatchedStaple {
  readonly file: string
  readonly chain: Chain
  /** Puts it in force for new connections; undefined: none is sent. */
  readonly enforce: (staple: Staple | undefined) => void
}

/** Has the response of OCSP in a file sent while it is good, and reports why it is not. It prevents no start and no handshake. */
export class StapleWatch implements StapleSource {
  readonly #clock: () => number
  readonly #stapler: Stapler
  readonly #watch: FileWatch
  readonly #timer: NodeJS.Timeout
  #chain: Chain
  #looks = 0

  constructor(reports: Reports, { file, chain, enforce }: WatchedStaple) {
    this.#clock = reports.clock
    this.#chain = chain
    this.#stapler = reportedStapler(reports, { source: file, chain, enforce })
    const first = readStaple(file)
    this.#stapler.offer(first)
    this.#watch = new FileWatch(file, {
      ...(typeof first === 'string' ? {} : { known: first.toString('latin1') }),
      onChange: (text) => this.#changed(Buffer.from(text, 'latin1')),
      onGone: (error) => this.#stapler.offer(unreadable(file, error).reason),
      disk: BINARY_DISK,
    })
    this.#timer = setInterval(() => this.#stapler.check(), CHECK_MS).unref()
  }

  replaceCertificate(chain: Chain): void {
    this.#chain = chain
    this.#stapler.replaceCertificate(chain)
  }

  async check(): Promise<void> {
    await this.#watch.check()
    this.#stapler.check()
  }

  stop(): void {
    this.#watch.stop()
    clearInterval(this.#timer)
  }

  #changed(response: Buffer): void {
    const isGood = 'staple' in judgeStaple(response, this.#chain, this.#clock())
    this.#looks = isGood ? 0 : this.#looks + 1
    if (isGood || this.#looks >= DOUBTFUL_LOOKS) {
      this.#looks = 0
      this.#stapler.offer(response)
    } else this.#watch.again()
  }
}

/** @returns a response in DER, or why there is none */
export function readStaple(file: string): Buffer | string {
  try {
    return readFileSync(file)
  } catch (error) {
    return unreadable(file, error).reason
  }
}
