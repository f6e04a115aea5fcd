import type { SharedState } from '../file/shared-trail.ts'
import type { Pen } from '../file/trail-file.ts'
import { STANDARD_OUTPUT } from '../file/trail-sink.ts'
import { Notes } from './open-request-notes.ts'
import { openLines } from './recovery.ts'

/** A thread that is no more, and what it wrote to. */
export interface Departed {
  /** Its `threadId`. */
  readonly thread: number
  readonly file: string
  readonly pen: Pen
  readonly shared: SharedState
}

/**
 * Ends what the thread was doing to the file, and calls `settle` with each API_REQUEST line that it has left without a
 * response; then its seat is free.
 *
 * @returns how many those were.
 * @throws Error that names the file, when it cannot be read; the seat is kept, so that it can be tried again.
 */
export function settleDeparted(departed: Departed, settle: (requestLine: string) => void): number {
  const { thread, shared, pen } = departed
  pen.release(thread)
  const seat = shared.seatOf(thread)
  if (seat === undefined) return 0
  const notes = new Notes(seat)
  let count = 0
  for (const line of notes.count === 0 ? [] : linesOpenNow(departed)) {
    if (!notes.remove(line)) continue
    settle(line)
    count++
  }
  notes.release()
  return count
}

/** Of all threads. */
function linesOpenNow({ file, pen }: Departed): string[] {
  if (file === STANDARD_OUTPUT) return []
  const { inode } = pen.sink.identity()
  const { end: sizeBytes, open } = pen.here()
  return openLines({ file, inode, sizeBytes, open })
}
