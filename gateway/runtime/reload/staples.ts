import { readFileSync } from 'node:fs'
import { unreadable } from '../../config/load-file.ts'
import { BINARY_DISK, FileWatch } from '../../config/reload/watch.ts'
import { createSender, type Send } from '../../outgoing/sender.ts'
import { ocspRequest, responderOf } from '../../tls/stapling/ocsp-response.ts'
import {
  type Chain,
  issuedCertificate,
  judgeStaple,
  type Staple,
  Stapler,
} from '../../tls/stapling/stapler.ts'
import type { Reports, Watching } from './reload-reports.ts'

export interface StapleSource extends Watching {
  replaceCertificate(chain: Chain): void
}

interface Stapled {
  /** File or responder, for the log. */
  readonly source: string
  readonly chain: Chain
  /** Puts it in force for new connections; undefined: none is sent. */
  readonly enforce: (staple: Staple | undefined) => void
}

function reportedStapler({ clock, log, metrics }: Reports, { source, chain, enforce }: Stapled): Stapler {
  let until: string | undefined
  return new Stapler({
    chain,
    clock,
    onStaple: (staple) => {
      until = staple && new Date(staple.untilMs).toISOString()
      enforce(staple)
    },
    onVerdict: (fault) => {
      metrics.configReload('ocsp', fault === undefined ? 'success' : 'failure')
      if (fault === undefined) log.info({ source, until }, 'the response of OCSP is sent')
      else log.error({ source, cause: fault, until }, 'the response of OCSP cannot be sent')
    },
  })
}

const MINUTE_MS = 60_000
/** Between two attempts when nothing came of the one before: twice as long each time, up to this. */
const MAX_RETRY_MS = 60 * MINUTE_MS
const MAX_PAUSE_MS = 24 * 60 * MINUTE_MS

interface FetchedStaple {
  readonly chain: Chain
  readonly enforce: (staple: Staple | undefined) => void
  readonly sendTo?: (url: string) => Send
}

/** Asks the responder that the certificate names, again when half of the response's lifetime is over. */
export class StapleFetch implements StapleSource {
  readonly #reports: Reports
  readonly #stapler: Stapler
  readonly #sendTo: (url: string) => Send
  readonly #leaving = new AbortController()
  readonly #checking: NodeJS.Timeout
  #chain: Chain
  #staple: Staple | undefined
  #fruitless = 0
  #round: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(reports: Reports, { chain, enforce, sendTo }: FetchedStaple) {
    this.#reports = reports
    this.#chain = chain
    this.#sendTo = sendTo ?? ((url) => createSender({ url }))
    const put = (staple: Staple | undefined) => {
      this.#staple = staple
      enforce(staple)
    }
    this.#stapler = reportedStapler(reports, { source: 'responder', chain, enforce: put })
    this.#checking = setInterval(() => this.#stapler.check(), CHECK_MS).unref()
    void this.ask()
  }

  replaceCertificate(chain: Chain): void {
    this.#chain = chain
    this.#stapler.replaceCertificate(chain)
    void this.ask()
  }

  /** Waits for no responder: a reload of all files must not. */
  async check(): Promise<void> {
    this.#stapler.check()
  }

  async ask(): Promise<void> {
    clearTimeout(this.#timer)
    this.#round ??= this.#askForAll().finally(() => {
      this.#round = undefined
      this.#schedule()
    })
    await this.#round
  }

  stop(): void {
    this.#leaving.abort()
    clearTimeout(this.#timer)
    clearInterval(this.#checking)
  }

  #schedule(): void {
    clearTimeout(this.#timer)
    if (this.#leaving.signal.aborted) return
    const { clock } = this.#reports
    const leftMs = this.#staple === undefined ? 0 : this.#staple.untilMs - clock()
    const pauseMs = pauseBefore({ leftMs, fruitless: this.#fruitless })
    this.#timer = setTimeout(() => void this.ask(), pauseMs * (0.9 + 0.2 * Math.random())).unref()
  }

  async #askForAll(): Promise<void> {
    let chain: Chain
    do {
      chain = this.#chain
      await this.#askFor(chain)
      // The certificate may have been replaced meanwhile.
    } while (chain !== this.#chain && !this.#leaving.signal.aborted)
  }

  async #askFor(chain: Chain): Promise<void> {
    const answer = await this.#fetch(chain)
    if (chain !== this.#chain || this.#leaving.signal.aborted) return
    const judged = judgeStaple(answer, chain, this.#reports.clock())
    const isVerdict = 'staple' in judged || judged.isRevoked
    this.#fruitless = 'staple' in judged ? 0 : this.#fruitless + 1
    // While the last good one holds, a responder that fails is no news for an alert.
    if (isVerdict || this.#staple === undefined) this.#stapler.offer(answer)
    else this.#reports.log.warn({ cause: judged.fault }, 'no new response of OCSP yet')
  }

  async #fetch(chain: Chain): Promise<Buffer | string> {
    const certificate = issuedCertificate(chain)
    const url = responderOf(chain[0])
    if (url === undefined) return 'the certificate names no responder with a URL of http'
    // The verdict says that the issuer is missing.
    if (certificate === undefined) return Buffer.alloc(0)
    try {
      const { statusCode, body } = await this.#sendTo(url)({
        method: 'POST',
        headers: { 'content-type': 'application/ocsp-request' },
        body: ocspRequest(certificate),
        signal: this.#leaving.signal,
      })
      return statusCode === 200 ? body : `${url} responds ${statusCode}`
    } catch (error) {
      return `${url}: ${(error as Error).message}`
    }
  }
}

/** @param leftMs how long the response that is sent still holds; 0: none is sent */
export function pauseBefore({
  leftMs,
  fruitless,
}: {
  readonly leftMs: number
  readonly fruitless: number
}): number {
  if (fruitless > 0) return Math.min(MINUTE_MS * 2 ** Math.min(fruitless - 1, 10), MAX_RETRY_MS)
  return Math.min(Math.max(leftMs / 2, MINUTE_MS), MAX_PAUSE_MS)
}

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
