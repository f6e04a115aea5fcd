import { windowToMs } from '../../config/rules/window-rule.ts'
import { isInCalendar } from '../../edge/syntax/timestamp.ts'
import { type TrailFiles, trailsOf } from '../../evidence/trail-files.ts'
import { EvidenceFault, type TrustedKey, trustedKey } from '../../evidence/verify/trusted-key.ts'
import { printable } from '../../terminal/printable.ts'
import { CommandFault, complain, type Flags, type Given, UsageFault } from '../command.ts'

export const FILES = '[FILE…]'
export const ABOUT_FILES =
  'FILE is an audit file, with the segments rotated from it, compressed or not; or one segment; or a directory, with its trails. The default is $GATEWAY_AUDIT_FILE, or data/audit.ndjson.'

export const UNABLE = 'the command line is wrong, or a file cannot be read'

export const LOG_FLAG: Flags = {
  log: {
    value: 'DIR',
    about: 'the log, if it is not beside the trail: data/audit-log for data/audit.ndjson',
  },
}

export const KEY_FLAG: Flags = {
  key: {
    value: 'KEY',
    about:
      'the key to trust: a verifier key, a file with one, or a PEM file; default $GATEWAY_AUDIT_SEAL_KEY. Of several keys, separated by commas, each must have signed',
  },
}

/** @throws UsageFault when no key is named; Error when the text is no key */
export function keyNamed(flags: Given['flags']): TrustedKey {
  const key = flags.key ?? process.env.GATEWAY_AUDIT_SEAL_KEY
  if (key !== undefined && key !== '') return trustedKey(key)
  throw new UsageFault(
    'needs --key or $GATEWAY_AUDIT_SEAL_KEY: a key found beside the trail would prove nothing',
  )
}

export const PERIOD_FLAGS: Flags = {
  since: { value: 'WHEN', about: 'from then on: 2026-11-22, 2026-11-22T15:00Z, or 90m, 24h, 7d ago' },
  until: { value: 'WHEN', about: 'before then' },
}

/** @throws UsageFault when a file cannot be read */
export async function trailsNamed(words: Given['words']): Promise<TrailFiles[]> {
  const files = words.length === 0 ? [process.env.GATEWAY_AUDIT_FILE ?? 'data/audit.ndjson'] : words
  const trails = await ableTo(() => trailsOf(files))
  for (const { path, remark } of trails.flatMap(({ segments }) => segments)) {
    if (remark !== undefined) complain(printable(`warning: ${path} ${remark}`))
  }
  return trails
}

/** Runs `work` on evidence. @throws UsageFault when something cannot be read; CommandFault when the evidence is wrong */
export async function ableTo<T>(work: () => Promise<T> | T): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof Error) || error instanceof UsageFault || error instanceof CommandFault) throw error
    if (error instanceof EvidenceFault) throw new CommandFault(error.message)
    const kind = error.constructor === Error ? '' : `${error.name}: `
    throw new UsageFault(`cannot go on: ${printable(kind + error.message)}`)
  }
}

/** Shows a command's progress on a terminal (standard error). */
export class Progress {
  readonly #verb: string
  readonly #beganMs = performance.now()
  #shownMs = 0
  #isShown = false

  constructor(verb: string) {
    this.#verb = verb
  }

  /** Shows at most ten times a second, after half a second. */
  readonly show = (done: number, total: number): void => {
    const nowMs = performance.now()
    if (!process.stderr.isTTY || nowMs - this.#beganMs < 500 || nowMs - this.#shownMs < 100) return
    this.#shownMs = nowMs
    this.#isShown = true
    const share = total === 0 ? 1 : Math.min(1, done / total)
    const bar = '█'.repeat(Math.round(share * 30)).padEnd(30, '░')
    const leftSeconds = share === 0 ? 0 : Math.ceil(((nowMs - this.#beganMs) / share / 1000) * (1 - share))
    const megabytes = `${Math.round(done / 1e6)} of ${Math.round(total / 1e6)} MB`
    process.stderr.write(
      `\r${this.#verb} ${bar} ${Math.floor(share * 100)} %, ${megabytes}, ${leftSeconds} s left\u001b[K`,
    )
  }

  clear(): void {
    if (this.#isShown) process.stderr.write('\r\u001b[K')
    this.#isShown = false
  }
}

const AGO = /^\d+[smhd]$/
/** RFC 3339, or its date alone: midnight UTC. A time needs its zone. */
const TIME = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d))?$/

/** A flag's time in epoch milliseconds; undefined when it is not given. @throws UsageFault */
export function whenOf(flags: Given['flags'], name: string): number | undefined {
  const text = flags[name]
  if (text === undefined) return undefined
  const ms = AGO.test(text) ? Date.now() - windowToMs(text) : timeIn(text)
  if (Number.isNaN(ms)) {
    throw new UsageFault(
      `--${name} must be a day (2026-11-22), a time with its zone (…T15:00Z), or 90m, 24h, 7d ago`,
    )
  }
  return ms
}

/** Epoch milliseconds; NaN when there is no such time. */
export function timeIn(text: string): number {
  return TIME.test(text) && isInCalendar(text.slice(0, 10)) ? Date.parse(text) : Number.NaN
}
