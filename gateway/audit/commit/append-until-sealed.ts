import { closeSync, fdatasyncSync, openSync } from 'node:fs'
import { setTimeout as afterMs } from 'node:timers/promises'
import { syncDirectoryOf } from '../../storage/append-file.ts'
import { withFile } from '../../storage/line-file.ts'
import { SealedTree } from '../segments/sealed-tree.ts'

interface TrailToRecordIn {
  readonly auditFile: string
  readonly isSealed: boolean
  readonly append: (line: string) => Promise<void>
  readonly pause?: () => Promise<unknown>
}

const PAUSE_MS = 200
const MAX_PAUSES = 150

/**
 * Appends lines, and waits until they are sealed; without seals, syncs them.
 * @throws Error when a line could not be appended, or was not sealed in half a minute
 */
export async function appendUntilSealed(
  lines: readonly string[],
  { auditFile, isSealed, append, pause = () => afterMs(PAUSE_MS) }: TrailToRecordIn,
): Promise<void> {
  const last = lines.at(-1)
  if (last === undefined) return
  const before = SealedTree.of(auditFile)
  // The first checkpoint will cover all lines, so before it there is nothing to wait for.
  const isForSeal = isSealed && before !== undefined
  const fd = openSync(auditFile, 'r')
  try {
    for (const line of lines) await append(line)
    if (!isForSeal) {
      // A rotation may have come between, so both files are synced.
      fdatasyncSync(fd)
      withFile(auditFile, 'r', fdatasyncSync)
      syncDirectoryOf(auditFile)
      return
    }
  } finally {
    closeSync(fd)
  }
  for (let pauses = 0; SealedTree.of(auditFile)?.hasFrom(before.size, last) !== true; pauses++) {
    if (pauses === MAX_PAUSES) throw new Error('the record of the removal was not sealed in time')
    await pause()
  }
}
