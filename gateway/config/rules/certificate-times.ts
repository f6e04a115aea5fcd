import type { X509Certificate } from 'node:crypto'
import type { Fault } from '../faults.ts'

/** A certificate or a revocation list of a file, and whether it is valid now. */
export interface Dated {
  /** All of one file have the same. */
  readonly file: string
  /** What another one replaces has the same: the name of its owner; '' for the certificate of a server or client. */
  readonly owner: string
  /** The file is of use without it: an authority among others. */
  readonly isSpare: boolean
  /** When a revocation list was issued; undefined: it is no list, or one that is still to come. */
  readonly issuedMs?: number | undefined
  /** Why it is not valid, and where it stands; undefined: it is. */
  readonly fault: Fault | undefined
}

/** Why a certificate is not valid now; undefined when it is. */
export function timeFault(
  { validFromDate, validToDate }: Pick<X509Certificate, 'validFromDate' | 'validToDate'>,
  nowMs: number,
): string | undefined {
  if (nowMs > validToDate.getTime()) return `expired at ${validToDate.toISOString()}`
  if (nowMs < validFromDate.getTime()) return `is not valid before ${validFromDate.toISOString()}`
  return undefined
}

/**
 * Faults of an edit that would replace what is valid now by what is not. A list that was issued later is none, though it is out
 * of date: it may revoke what the one in force does not.
 *
 * @param inForce as it is now
 */
export function lapses(edited: readonly Dated[], inForce: readonly Dated[]): Fault[] {
  return worthless(edited)
    .filter((one) => isOneGood(inForce, one, 'owner') || !isOneGood(edited, one))
    .filter((one) => isOneGood(inForce, one) && !isNewer(one, inForce))
    .map(({ fault }) => ({
      ...fault,
      reason: `${fault.reason}, so what is in force stays while it is valid`,
    }))
}

/** Faults of files that nothing is known to stand in for. */
export function outOfTime(read: readonly Dated[]): Fault[] {
  return worthless(read)
    .filter((one) => !one.isSpare || !isOneGood(read, one))
    .map(({ fault }) => fault)
}

/** What is not valid, and has no other one of its owner beside it that is. */
function worthless(all: readonly Dated[]): (Dated & { readonly fault: Fault })[] {
  return all.flatMap((one) =>
    one.fault === undefined || isOneGood(all, one, 'owner') ? [] : { ...one, fault: one.fault },
  )
}

/** A list that was issued after those of its owner that are in force. */
function isNewer({ file, owner, issuedMs }: Dated, inForce: readonly Dated[]): boolean {
  const known = inForce.filter((one) => one.file === file && one.owner === owner)
  if (issuedMs === undefined || known.length === 0) return false
  return known.every((one) => issuedMs > (one.issuedMs ?? 0))
}

/** One of the same file is valid, or of the same owner there. */
function isOneGood(all: readonly Dated[], { file, owner }: Dated, of?: 'owner'): boolean {
  return all.some(
    (one) => one.fault === undefined && one.file === file && (of === undefined || one.owner === owner),
  )
}
