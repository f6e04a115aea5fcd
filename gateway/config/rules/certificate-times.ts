import type { X509Certificate } from 'node:crypto'
import type { Fault } from '../faults.ts'

/** A certificate or a revocation list in a file. */
export interface Dated {
  readonly file: string
  /** The name of its owner; '' for the certificate of a server or client. A replacement has the same owner. */
  readonly owner: string
  /** True for an authority among others: the file is of use without it. */
  readonly isSpare: boolean
  /** Issue time of a revocation list; undefined: it is no list. */
  readonly issuedMs?: number
  readonly place: Pick<Fault, 'file' | 'path'>
  /** Why it is not valid at that time; undefined: it is. */
  readonly reasonAt: (nowMs: number) => string | undefined
}

interface Judged extends Dated {
  readonly fault: Fault | undefined
}

export function timeFault(
  { validFromDate, validToDate }: Pick<X509Certificate, 'validFromDate' | 'validToDate'>,
  nowMs: number,
): string | undefined {
  if (nowMs > validToDate.getTime()) return `expired at ${validToDate.toISOString()}`
  if (nowMs < validFromDate.getTime()) return `is not valid before ${validFromDate.toISOString()}`
  return undefined
}

/**
 * Faults of an edit that replaces something valid by something that is not. A newer list is no fault even if expired,
 * because it may revoke more. If a server or client certificate in force has expired, its whole file counts as expired.
 */
export function lapses(edited: readonly Dated[], inForce: readonly Dated[], nowMs: number): Fault[] {
  const [wanted, all] = [judged(edited, nowMs), judged(inForce, nowMs)]
  const expired = all.filter(({ owner, fault }) => owner === '' && fault !== undefined)
  const running = all.filter(({ file }) => !expired.some((one) => one.file === file))
  return worthless(wanted)
    .filter((one) => isOwnerGood(running, one) || !isFileGood(wanted, one))
    .filter((one) => isFileGood(running, one) && !isNewer(one, running, nowMs))
    .map(({ fault }) => ({
      ...fault,
      reason: `${fault.reason}; the one in force stays until it expires: install one that is valid`,
    }))
}

/** Faults of what is not valid at this time, unless something valid takes its place. */
export function outOfTime(read: readonly Dated[], nowMs: number): Fault[] {
  const all = judged(read, nowMs)
  return worthless(all)
    .filter((one) => !one.isSpare || !isFileGood(all, one))
    .map(({ fault }) => fault)
}

export function faultAt({ place, reasonAt }: Dated, nowMs: number): Fault | undefined {
  const reason = reasonAt(nowMs)
  return reason === undefined ? undefined : { ...place, reason }
}

function judged(all: readonly Dated[], nowMs: number): Judged[] {
  return all.map((one) => ({ ...one, fault: faultAt(one, nowMs) }))
}

/** Certificates and lists that are not valid, if their owner has no valid one in the same file. */
function worthless(all: readonly Judged[]): (Judged & { readonly fault: Fault })[] {
  return all.flatMap((one) =>
    one.fault === undefined || isOwnerGood(all, one) ? [] : { ...one, fault: one.fault },
  )
}

/** True for a list issued after the lists in force of its owner, and not in the future. */
function isNewer({ file, owner, issuedMs }: Dated, inForce: readonly Dated[], nowMs: number): boolean {
  const known = inForce.filter((one) => one.file === file && one.owner === owner)
  if (issuedMs === undefined || issuedMs > nowMs || known.length === 0) return false
  return known.every((one) => issuedMs > (one.issuedMs ?? 0))
}

function isFileGood(all: readonly Judged[], { file }: Judged): boolean {
  return all.some((one) => one.fault === undefined && one.file === file)
}

function isOwnerGood(all: readonly Judged[], { file, owner }: Judged): boolean {
  return all.some((one) => one.fault === undefined && one.file === file && one.owner === owner)
}
