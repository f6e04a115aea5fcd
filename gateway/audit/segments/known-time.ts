import { realPathOf } from '../../storage/append-file.ts'
import { replaceFile } from '../../storage/line-file.ts'
import { readRegularFile } from '../../storage/regular-file.ts'
import { closedSegments } from './closed-segments.ts'

/** Kept beside the trail, for the next process: `2026-11-22T15:16:02.123Z`. */
function fileOf(auditFile: string): string {
  return `${realPathOf(auditFile)}.clock`
}

/**
 * Until when time has passed for certain, as a process before has left it; otherwise when it has closed a segment last.
 *
 * @returns milliseconds since the epoch; undefined when there is neither
 */
export function readKnownTime(auditFile: string): number | undefined {
  try {
    const ms = Date.parse(readRegularFile(fileOf(auditFile)).toString().trim())
    if (!Number.isNaN(ms)) return ms
  } catch {
    // As if there were none: what is closed tells a time before, and so removes no more.
  }
  return closedSegments(auditFile).at(-1)?.closedMs
}

/** @throws Error of the system */
export function keepKnownTime(auditFile: string, ms: number): void {
  replaceFile(fileOf(auditFile), [`${new Date(ms).toISOString()}\n`])
}
