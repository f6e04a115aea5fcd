import { syncDirectory } from '../../storage/append-file.ts'
import type { Pauses } from '../commit/outage.ts'
import type { Pen } from './trail-file.ts'
import { Sink } from './trail-sink.ts'

export interface RotateOptions {
  readonly file: string
  readonly pen: Pen
  readonly pauses: Pauses
  /** `synced`: this thread has the turn, and what the old file has must last. */
  readonly syncs: boolean
}

/**
 * Goes on in a new file of the same name, if the present one has been renamed. The old one ends in AUDIT_STOP; the new
 * one begins with AUDIT_START as soon as the pause that this leaves is mended. Lines that the old file would not take go
 * to the new one, whole.
 *
 * @returns false when other threads would not let this one have the file: it has been renamed, so it has to be left.
 * @throws Error that names the file, when it cannot be opened, and then the old one is kept; or the system's, when the
 * old one could not be ended as it should.
 */
export function rotate({ file, pen, pauses, syncs }: RotateOptions): boolean {
  const next = Sink.open(file)
  const here = pen.sink.identity()
  const there = next.identity()
  const isRemoved = pen.sink.isRemoved
  if (there.device === here.device && there.inode === here.inode) {
    next.close()
    return true
  }
  let old: Sink | undefined
  pen.during(() => {
    if (syncs ? pauses.writable : pauses.recheck()) {
      pauses.stop(isRemoved ? 'removed' : 'rotated')
      pauses.flush()
    }
    old = pen.moveTo(next)
    pauses.moved({ continues: here.inode, removed: isRemoved })
    return undefined
  })
  if (old === undefined) {
    next.close()
    return false
  }
  try {
    if (syncs) {
      old.sync()
      syncDirectory(file)
    }
  } finally {
    old.close()
  }
  return true
}
