import { syncDirectoryOf } from '../../storage/append-file.ts'
import type { Outage } from '../commit/outage.ts'
import type { TrailFile } from './trail-file.ts'
import { TrailSink } from './trail-sink.ts'

interface RotateOptions {
  readonly file: string
  readonly trailFile: TrailFile
  readonly outage: Outage
  /** `synced`: the caller has the right to commit, and the old file is synced. */
  readonly syncs: boolean
  /** The clock was set back while the old file was written. */
  readonly clockSetBackMs?: number | undefined
}

/**
 * Goes on in a new file of the same name, if the present one has been renamed. The old one ends with AUDIT_STOP; the new
 * one begins with AUDIT_START at the next `Outage.resume`. Lines that the old file did not take go to the new one whole.
 *
 * @throws Error that names the file, when it cannot be opened or its name cannot be synced, and the old one is kept; or the
 * system's, when the old one could not be synced or closed.
 */
export function rotate(options: RotateOptions): void {
  const { file, trailFile, outage, syncs, clockSetBackMs } = options
  const next = TrailSink.open(file)
  const { device, inode, isRemoved } = trailFile.sink
  if (next.device === device && next.inode === inode) {
    next.close()
    return
  }
  if (syncs) syncName(file, next)
  if (syncs ? outage.writable : outage.recheck()) {
    outage.addStop(isRemoved ? 'removed' : 'rotated')
    outage.flush()
  }
  const old = trailFile.moveTo(next)
  outage.moved({ continues: inode, removed: isRemoved || undefined, clockSetBackMs })
  try {
    if (syncs) old.sync()
  } finally {
    old.close()
  }
}

/** Before anything is committed to it: a power cut could take the whole file otherwise. */
function syncName(file: string, next: TrailSink): void {
  try {
    syncDirectoryOf(file)
  } catch (error) {
    next.close()
    throw error
  }
}
