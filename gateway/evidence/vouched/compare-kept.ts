import type { Checkpoint } from '../../audit/seals/checkpoint.ts'
import { NoteFault } from '../../audit/seals/signed-note.ts'
import { type Finding, plural } from '../verify/finding.ts'
import { openCheckpoint, type TrustedKey } from '../verify/trusted-key.ts'

/** A checkpoint that says what the log was at a time. */
export interface KeptCheckpoint {
  readonly file: string
  readonly bytes: Uint8Array
  /** Who stands for it, and since when. */
  readonly says: string
}

/** A log as far as it has been proved by its checkpoint. */
export interface ProvenLog {
  readonly checkpoint: Checkpoint
  /** The root of an earlier tree; undefined when tiles are missing, 'unproven' when one is not what the checkpoint is over. */
  provenRootAt(size: number): Buffer | 'unproven' | undefined
}

/** What a kept checkpoint shows; not known: what it is over has been pruned. */
interface Shown {
  readonly isKnown: boolean
  readonly text: string
}

/** Says whether the log goes on from a checkpoint that it once had, or was put back together with all its seals. */
export function compareKept(
  { file, bytes, says }: KeptCheckpoint,
  key: TrustedKey,
  log: ProvenLog,
): Finding | Shown {
  let kept: Checkpoint
  try {
    // It may be from before the second key was made.
    kept = openCheckpoint(bytes, { ...key, least: 'one' })
  } catch (error) {
    if (error instanceof NoteFault) return { what: 'checkpoint', text: `${file} ${error.message}` }
    throw error
  }
  const { origin, size } = log.checkpoint
  if (kept.origin !== origin) {
    return { what: 'checkpoint', text: `the log is ${origin}, and ${file} is of ${kept.origin}` }
  }
  if (kept.size > size) {
    const text = `${file}, ${says}, is over ${plural(kept.size, 'line')}, and the log has ${size.toLocaleString('en')}`
    return { what: 'rolled back', text }
  }
  const root = kept.size === size ? log.checkpoint.root : log.provenRootAt(kept.size)
  if (root === undefined) return { isKnown: false, text: `${file} is older than what is left of the log` }
  if (root === 'unproven') {
    const text = `whether the log continues ${file}, ${says}, nothing shows: tiles under it are not those of the signed log, as when it was written anew with the same key`
    return { what: 'rolled back', text }
  }
  if (root.equals(kept.root)) return { isKnown: true, text: `${plural(kept.size, 'line')} ${says}: ${file}` }
  const text = `the log does not continue ${file}, ${says}: it was written anew with the same key`
  return { what: 'rolled back', text }
}
