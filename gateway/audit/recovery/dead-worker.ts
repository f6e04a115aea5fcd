import type { SharedTrail } from '../file/shared-trail.ts'
import type { TrailFile } from '../file/trail-file.ts'
import { STANDARD_OUTPUT } from '../file/trail-sink.ts'
import { OpenRequestNotes } from './open-request-notes.ts'
import { openLines } from './recovery.ts'

/** A thread that has died, and what it wrote to. */
export interface DeadWorker {
  /** Its `threadId`. */
  readonly thread: number
  readonly file: string
  readonly trailFile: TrailFile
  readonly shared: SharedTrail
}

/**
 * Repairs the file, calls `settle` with each API_REQUEST line of the thread that has no response, and frees its seat.
 *
 * @returns how many lines those were.
 * @throws Error that names the file, when it cannot be read; the seat is kept, so that the call can be repeated.
 */
export function settleDeadWorker(dead: DeadWorker, settle: (requestLine: string) => void): number {
  const { thread, shared, trailFile } = dead
  trailFile.release(thread)
  const seat = shared.seatOf(thread)
  if (seat === undefined) return 0
  const notes = new OpenRequestNotes(seat)
  let count = 0
  for (const line of notes.count === 0 ? [] : linesOpenNow(dead)) {
    if (!notes.remove(line)) continue
    settle(line)
    count++
  }
  notes.release()
  return count
}

/** The open requests of all threads. */
function linesOpenNow({ file, trailFile }: DeadWorker): string[] {
  if (file === STANDARD_OUTPUT) return []
  const { inode } = trailFile.sink.identity()
  const { end: sizeBytes, open } = trailFile.here()
  return openLines({ file, inode, sizeBytes, open })
}
