import { EvidenceFault } from '../../evidence/log-checkpoint.ts'
import { type TrailFiles, trailsOf } from '../../evidence/trail-files.ts'
import { printable } from '../../terminal/printable.ts'
import { CommandFault, type Flag, flagValue, type Given, UsageFault } from '../command.ts'
import { complain } from '../print.ts'

/** What the audit commands read without FILE. */
function defaultFile(): string {
  return process.env.GATEWAY_AUDIT_FILE ?? 'data/audit.ndjson'
}

export const FILES = '[FILE…]'
export const ABOUT_FILES =
  'FILE is an audit file, which stands for the segments rotated from it too, compressed or not; one such segment; or a directory, which stands for the trails in it. Without FILE it is $GATEWAY_AUDIT_FILE, or data/audit.ndjson.'

export const UNABLE = 'the command line is not one, or a file cannot be read'

export const LOG_FLAG: Readonly<Record<string, Flag>> = {
  log: {
    value: 'DIR',
    about: 'the log, if it is not beside the trail: data/audit-log for data/audit.ndjson',
  },
}

export const PERIOD_FLAGS: Readonly<Record<string, Flag>> = {
  since: { value: 'WHEN', about: 'from then on: 2026-11-22, 2026-11-22T15:00Z, or 90m, 24h, 7d ago' },
  until: { value: 'WHEN', about: 'before then' },
}

/** @throws UsageFault when a file cannot be read. */
export async function trailsNamed(words: Given['words']): Promise<TrailFiles[]> {
  const trails = await ableTo(() => trailsOf(words.length === 0 ? [defaultFile()] : words))
  for (const { path, remark } of trails.flatMap(({ segments }) => segments)) {
    if (remark !== undefined) complain(printable(`warning: ${path} ${remark}`))
  }
  return trails
}

/**
 * Runs what reads evidence. What cannot be read, or breaks this program, is no evidence against anybody: exit code 2.
 *
 * @throws UsageFault; CommandFault for what speaks against the evidence
 */
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

const AGO = /^(\d+)([smhd])$/
const UNIT_MS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
/** RFC 3339, or its date alone, which is midnight in UTC. Without a zone a time would be that of this machine. */
const TIME = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d))?$/

/** A flag's point in time, milliseconds since the epoch; undefined when it is not given. @throws UsageFault */
export function whenOf(flags: Given['flags'], name: string): number | undefined {
  const text = flagValue(flags, name)
  if (text === undefined) return undefined
  const [, count, unit = ''] = AGO.exec(text) ?? []
  const ms = count === undefined ? Date.parse(text) : Date.now() - Number(count) * (UNIT_MS[unit] ?? 0)
  if ((count === undefined && !TIME.test(text)) || Number.isNaN(ms)) {
    throw new UsageFault(
      `--${name} must be a day (2026-11-22), a time with its zone (…T15:00Z), or 90m, 24h, 7d ago`,
    )
  }
  return ms
}
