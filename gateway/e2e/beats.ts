const BEAT_MS = 25

/**
 * A stopwatch that counts the timer beats of this process, in milliseconds: while the machine is too busy to run the process,
 * it stands still, like the program that it measures.
 */
export function startBeats(): { elapsedMs(): number } {
  let beats = 0
  setInterval(() => {
    beats += 1
  }, BEAT_MS).unref()
  return { elapsedMs: () => beats * BEAT_MS }
}
