import { spawnSync } from 'node:child_process'
import { appendFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A disk of 128 KiB that can be filled. */
export interface SmallDisk {
  readonly dir: string
  /** Fills the disk to the last byte. */
  fill(): void
  free(): void
  remove(): void
}

export const NO_SMALL_DISK = 'NOT TESTED: a small disk cannot be mounted here, which takes root on Linux'

/** Returns undefined where no disk can be mounted. */
export function mountSmallDisk(): SmallDisk | undefined {
  const dir = mkdtempSync(join(tmpdir(), 'small-disk-'))
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=128k', 'tmpfs', dir]).status !== 0) {
    rmSync(dir, { recursive: true })
    return undefined
  }
  const filler = join(dir, 'filler')
  return {
    dir,
    fill: () => {
      for (const bytes of [4096, 1]) fillWith(filler, bytes)
    },
    free: () => rmSync(filler),
    remove: () => {
      spawnSync('umount', ['-l', dir])
      rmSync(dir, { recursive: true })
    },
  }
}

function fillWith(file: string, bytes: number): void {
  try {
    for (;;) appendFileSync(file, Buffer.alloc(bytes, 'x'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
  }
}
