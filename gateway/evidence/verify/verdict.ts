import type { Checkpoint } from '../../audit/seals/checkpoint.ts'
import type { Segment } from '../../audit/segments/segment.ts'
import type { KeptCheckpoint } from '../attested-checkpoints.ts'
import type { OnRead } from '../records/scan-trail.ts'
import { type Finding, plural } from './finding.ts'
import type { TrustedKey } from './trusted-key.ts'

export interface Evidence {
  /** Oldest first. A function is called after the checkpoint was read, so that a segment begun later is not called missing. */
  readonly segments: readonly Segment[] | (() => Promise<readonly Segment[]>)
  /** The log may begin before them. */
  readonly isPart: boolean
  /** The log may go on behind them. */
  readonly endsEarly?: boolean | undefined
  readonly directory: string
  readonly key: TrustedKey
  /** Kept outside the log, or attested by others. */
  readonly kept?: readonly KeptCheckpoint[]
  readonly isUnsealedAllowed?: boolean | undefined
  /** Milliseconds since the epoch; another clock in tests. */
  readonly now?: () => number
  readonly onRead?: OnRead | undefined
}

export interface Verdict {
  /** Undefined: the key has signed none. */
  readonly checkpoint: Checkpoint | undefined
  /** Number of the first line in the log. */
  readonly firstLeaf: number
  readonly lines: number
  /** How many lines from the first on are as they were sealed. */
  readonly provenLines: number
  readonly pairs: number
  /** Requests without a response. */
  readonly open: number
  /** The leaves that were given, from 0, where these are not all. */
  readonly part: { readonly first: number; readonly last: number } | undefined
  readonly tail: string
  /** Empty: proven. */
  readonly findings: readonly Finding[]
  /** Contradictions between records, at most 20. */
  readonly warnings: readonly string[]
  /** Who attests the log, and up to where. */
  readonly attested: readonly string[]
}

interface TrailTail {
  readonly size: number
  readonly firstLeaf: number
  readonly lines: number
  readonly provenLines: number
  readonly isPart: boolean
  /** The length of a last line that is cut. */
  readonly tornBytes: number
  /** The last AUDIT_SEAL with a right root: the size that it names, and its line. */
  readonly lastSeal: { readonly size: number; readonly line: number } | undefined
}

export function tailOf(tail: TrailTail): string {
  const { size, lines, provenLines, tornBytes, lastSeal } = tail
  const rest = tail.firstLeaf + lines - size
  if (tail.isPart) return `${plural(-rest, 'sealed line')} behind these were not given, and are not judged`
  const torn = tornBytes > 0 ? `, and ${plural(tornBytes, 'byte')} of a line that is not whole` : ''
  if (rest < 0 || provenLines < lines - rest) {
    return rest < 0 ? `cut: ${plural(-rest, 'sealed line')} are missing` : 'not judged'
  }
  if (rest === 0)
    return `sealed to the last line; its AUDIT_SEAL is missing: a crash, or a cut behind the checkpoint${torn}`
  const isLast = lastSeal?.line === lines - 1 && lastSeal.size === size
  if (rest === 1 && isLast && torn === '') return 'sealed to the end'
  return `unsealed: ${plural(rest, 'line')} behind the checkpoint${torn}, as a gateway that runs or crashed leaves them`
}
