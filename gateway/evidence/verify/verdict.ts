import type { Checkpoint } from '../../audit/seals/checkpoint.ts'
import type { Segment } from '../../audit/segments/segment.ts'
import type { KeptCheckpoint } from '../attested-checkpoints.ts'
import type { OnRead } from '../records/scan-trail.ts'
import { type Finding, plural } from './finding.ts'
import type { TrustedKey } from './trusted-key.ts'

/** What `verifyTrail` is given. */
export interface Evidence {
  /**
   * Oldest first. A function is called when the checkpoint has been read: what is sealed later, in a segment that is not
   * in the list, is then not called missing.
   */
  readonly segments: readonly Segment[] | (() => Promise<readonly Segment[]>)
  /** They are not all that there is of the trail: the log may begin before. */
  readonly isPart: boolean
  /** What follows them was not given either, and is not to be called missing. */
  readonly endsEarly?: boolean | undefined
  /** Directory of the log: checkpoint and tiles. */
  readonly directory: string
  readonly key: TrustedKey
  /** Checkpoints of the same log that were kept elsewhere, or that others stand for. */
  readonly kept?: readonly KeptCheckpoint[]
  /** After a crash: lines that are not sealed are no finding. */
  readonly isUnsealedAllowed?: boolean | undefined
  /** Milliseconds since the epoch; another clock in tests. */
  readonly now?: () => number
  readonly onRead?: OnRead | undefined
}

/** What it found. */
export interface Verdict {
  /** Undefined when there is none that the key has signed. */
  readonly checkpoint: Checkpoint | undefined
  /** Place of the first line in the log. */
  readonly firstLeaf: number
  /** Lines read. */
  readonly lines: number
  /** Those of them, from the first on, that are as they were sealed. */
  readonly provenLines: number
  readonly pairs: number
  /** Requests without a response. */
  readonly open: number
  /** Only these leaves were given, counted from 0: first and last. */
  readonly part: { readonly first: number; readonly last: number } | undefined
  /** What the end of the trail is. */
  readonly tail: string
  /** Empty: proven. */
  readonly findings: readonly Finding[]
  /** Where records contradict one another, which proves nothing. At most 20. */
  readonly warnings: readonly string[]
  /** Who else stands for the log, and up to where. */
  readonly attested: readonly string[]
}

interface TrailTail {
  /** Leaves of the checkpoint. */
  readonly size: number
  /** Leaf of the first line. */
  readonly firstLeaf: number
  readonly lines: number
  /** From the first on. */
  readonly provenLines: number
  readonly isPart: boolean
  /** Bytes of a last line that is not whole. */
  readonly tornBytes: number
  /** The last AUDIT_SEAL whose root is right: the leaves that it names, and its own line. */
  readonly lastSeal: { readonly size: number; readonly line: number } | undefined
}

/** Says what the end of a trail is: sealed, unsealed, or cut. */
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
