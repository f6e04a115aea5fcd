import type { Checkpoint } from '../../audit/seals/checkpoint.ts'
import type { Segment } from '../../audit/segments/segment.ts'
import type { OnRead } from '../records/scan-trail.ts'
import type { KeptCheckpoint } from '../vouched/compare-kept.ts'
import type { Finding } from './finding.ts'
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
  readonly vouched: readonly string[]
}
