const BEAT_MS = 25

/**
 * A stopwatch that runs by this process's own beats: while the machine is too busy to give it a processor it stands still,
 * as what it measures does. Tells milliseconds.
 */
export function startBeats(): { elapsedMs(): number } {
  let beats = 0
  setInterval(() => {
    beats += 1
  }, BEAT_MS).unref()
  return { elapsedMs: () => beats * BEAT_MS }
}
