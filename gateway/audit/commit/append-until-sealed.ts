import { closeSync, fdatasyncSync, openSync } from 'node:fs'
import { setTimeout as afterMs } from 'node:timers/promises'
import { syncDirectoryOf } from '../../storage/append-file.ts'
import { SealedTree } from '../segments/sealed-tree.ts'

interface TrailToRecordIn {
  readonly auditFile: string
  /** A sealer works on the trail. */
  readonly isSealed: boolean
  /** Resolves when the operating system has the line. */
  readonly append: (line: string) => Promise<void>
  /** Between two looks at the seals; another one in tests. */
  readonly pause?: () => Promise<unknown>
}

/** A line is sealed within a second as a rule. */
const PAUSE_MS = 200
const MAX_PAUSES = 150

/**
 * Appends lines that stand for what is about to be destroyed, and waits until no power cut can take them and an auditor
 * believes them: until they are sealed, or synced where nothing is sealed.
 *
 * @throws Error when a line could not be appended, or was not sealed in half a minute. It may then stand there all the same.
 */
export async function appendUntilSealed(
  lines: readonly string[],
  { auditFile, isSealed, append, pause = () => afterMs(PAUSE_MS) }: TrailToRecordIn,
): Promise<void> {
  const last = lines.at(-1)
  if (last === undefined) return
  const before = SealedTree.of(auditFile)
  // Where nothing is sealed yet, the log begins with what is there.
  const isForSeal = isSealed && before !== undefined
  // A rotation may come in between.
  const fd = openSync(auditFile, 'r')
  try {
    for (const line of lines) await append(line)
    if (!isForSeal) syncBoth(fd, auditFile)
  } finally {
    closeSync(fd)
  }
  if (!isForSeal) return
  for (let pauses = 0; SealedTree.of(auditFile)?.hasFrom(before.size, last) !== true; pauses++) {
    if (pauses === MAX_PAUSES) throw new Error('the AUDIT_PRUNE that names it is not sealed')
    await pause()
  }
}

/** The file that was in use before, and the one that is now. */
function syncBoth(fd: number, auditFile: string): void {
  fdatasyncSync(fd)
  const now = openSync(auditFile, 'r')
  try {
    fdatasyncSync(now)
  } finally {
    closeSync(now)
  }
  syncDirectoryOf(auditFile)
}
