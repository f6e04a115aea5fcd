import type { SharedTrail } from '../file/shared-trail.ts'
import type { TrailFile } from '../file/trail-file.ts'
import { STANDARD_OUTPUT } from '../file/trail-sink.ts'
import { OpenRequestNotes } from './open-request-notes.ts'
import { openLines } from './recovery.ts'

/** A thread that is no more, and what it wrote to. */
export interface DeadWorker {
  /** Its `threadId`. */
  readonly thread: number
  readonly file: string
  readonly trailFile: TrailFile
  readonly shared: SharedTrail
}

/**
 * Ends what the thread was doing to the file, and calls `settle` with each API_REQUEST line that it has left without a
 * response; then its seat is free.
 *
 * @returns how many those were.
 * @throws Error that names the file, when it cannot be read; the seat is kept, so that it can be tried again.
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

/** Of all threads. */
function linesOpenNow({ file, trailFile }: DeadWorker): string[] {
  if (file === STANDARD_OUTPUT) return []
  const { inode } = trailFile.sink.identity()
  const { end: sizeBytes, open } = trailFile.here()
  return openLines({ file, inode, sizeBytes, open })
}
