import { readFileSync } from 'node:fs'
import { unreadable } from '../../config/load-file.ts'
import { DOUBTFUL_LOOKS } from '../../config/reload/reloader.ts'
import { BINARY_DISK, FileWatch } from '../../config/reload/watch.ts'
import { createSender, type Send } from '../../outgoing/sender.ts'
import { askResponder } from '../../tls/stapling/ask-responder.ts'
import { responderOf } from '../../tls/stapling/ocsp-response.ts'
import { type Chain, issuedCertificate, type Staple, Stapler } from '../../tls/stapling/stapler.ts'
import type { Reports, Watching } from './reload-reports.ts'

const CHECK_MS = 10_000
const MINUTE_MS = 60_000
/** The wait doubles with each failed attempt, up to this. */
const MAX_RETRY_MS = 60 * MINUTE_MS
const MAX_PAUSE_MS = 24 * 60 * MINUTE_MS

interface Stapled {
  readonly chain: Chain
  /** Takes effect for new connections; undefined: no response is sent. */
  readonly enforce: (staple: Staple | undefined) => void
}

abstract class ReportedStapler extends Stapler implements Watching {
  readonly #checking: NodeJS.Timeout

  /** @param source file or responder, for the log */
  constructor({ clock, log, metrics }: Reports, { chain, enforce }: Stapled, source: string) {
    let until: string | undefined
    super({
      chain,
      clock,
      onStaple: (staple) => {
        until = staple && new Date(staple.untilMs).toISOString()
        enforce(staple)
      },
      onVerdict: (fault) => {
        metrics.configReload('ocsp', fault === undefined ? 'success' : 'failure')
        if (fault === undefined) log.info({ source, until }, 'the OCSP response is sent to clients')
        else log.error({ source, cause: fault, until }, 'the OCSP response cannot be sent to clients')
      },
    })
    this.#checking = setInterval(() => super.check(), CHECK_MS).unref()
  }

  stop(): void {
    clearInterval(this.#checking)
  }
}

/** Asks the responder that the certificate names, and again after half of the response's lifetime. No reload waits for it. */
export class StapleFetch extends ReportedStapler {
  readonly #reports: Reports
  readonly #sendTo: (url: string) => Send
  readonly #leaving = new AbortController()
  #fruitless = 0
  #round: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(reports: Reports, stapled: Stapled & { readonly sendTo?: (url: string) => Send }) {
    super(reports, stapled, 'responder')
    this.#reports = reports
    this.#sendTo = stapled.sendTo ?? ((url) => createSender({ url }))
    void this.ask()
  }

  override replaceCertificate(chain: Chain): void {
    super.replaceCertificate(chain)
    void this.ask()
  }

  async ask(): Promise<void> {
    clearTimeout(this.#timer)
    this.#round ??= this.#askForAll().finally(() => {
      this.#round = undefined
      this.#schedule()
    })
    await this.#round
  }

  override stop(): void {
    super.stop()
    this.#leaving.abort()
    clearTimeout(this.#timer)
  }

  #schedule(): void {
    clearTimeout(this.#timer)
    if (this.#leaving.signal.aborted) return
    const leftMs = this.staple === undefined ? 0 : this.staple.untilMs - this.#reports.clock()
    const pauseMs = pauseBefore({ leftMs, fruitless: this.#fruitless })
    this.#timer = setTimeout(() => void this.ask(), pauseMs * (0.9 + 0.2 * Math.random())).unref()
  }

  async #askForAll(): Promise<void> {
    let chain: Chain
    do {
      chain = this.chain
      await this.#askFor(chain)
      // The certificate may have been replaced meanwhile.
    } while (chain !== this.chain && !this.#leaving.signal.aborted)
  }

  async #askFor(chain: Chain): Promise<void> {
    const answer = await this.#fetch(chain)
    if (chain !== this.chain || this.#leaving.signal.aborted) return
    const judged = this.judge(answer)
    const isVerdict = 'staple' in judged || judged.isRevoked
    this.#fruitless = 'staple' in judged ? 0 : this.#fruitless + 1
    // A failed fetch raises no alert while the last good response is valid.
    if (isVerdict || this.staple === undefined) this.offer(answer)
    else
      this.#reports.log.warn(
        { cause: judged.fault },
        'no good new OCSP response has come: clients get the last one',
      )
  }

  async #fetch(chain: Chain): Promise<Buffer | string> {
    const certificate = issuedCertificate(chain)
    const url = responderOf(chain[0])
    if (url === undefined) return 'the certificate names no responder with an http URL'
    // The verdict on this empty response says that the issuer is missing.
    if (certificate === undefined) return Buffer.alloc(0)
    try {
      return await askResponder(certificate, this.#sendTo(url), this.#leaving.signal)
    } catch (error) {
      return (error as Error).message
    }
  }
}

/** @param leftMs how long the response that is sent stays valid; 0: none is sent @param fruitless failed attempts in a row */
export function pauseBefore({ leftMs, fruitless }: Record<'leftMs' | 'fruitless', number>): number {
  if (fruitless > 0) return Math.min(MINUTE_MS * 2 ** Math.min(fruitless - 1, 10), MAX_RETRY_MS)
  return Math.min(Math.max(leftMs / 2, MINUTE_MS), MAX_PAUSE_MS)
}

/** Sends the OCSP response in a file while it is good. A bad file prevents no start and no handshake. */
export class StapleWatch extends ReportedStapler {
  readonly #watch: FileWatch
  #looks = 0

  constructor(reports: Reports, stapled: Stapled, file: string) {
    super(reports, stapled, file)
    const first = readStaple(file)
    this.offer(first)
    this.#watch = new FileWatch(file, {
      ...(typeof first === 'string' ? {} : { known: first.toString('latin1') }),
      onChange: (text) => this.#changed(Buffer.from(text, 'latin1')),
      onGone: (error) => this.offer(unreadable(file, error).reason),
      disk: BINARY_DISK,
    })
  }

  override async check(): Promise<void> {
    await this.#watch.check()
    super.check()
  }

  override stop(): void {
    super.stop()
    this.#watch.stop()
  }

  #changed(response: Buffer): void {
    const isGood = 'staple' in this.judge(response)
    this.#looks = isGood ? 0 : this.#looks + 1
    if (isGood || this.#looks >= DOUBTFUL_LOOKS) {
      this.#looks = 0
      this.offer(response)
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
