const BEAT_MS = 25

/**
 * A stopwatch that counts this process's timer beats, in milliseconds. On a busy machine it stands still, like the
 * program that it measures.
 */
export function startBeats(): { elapsedMs(): number } {
  let beats = 0
  setInterval(() => {
    beats += 1
  }, BEAT_MS).unref()
  return { elapsedMs: () => beats * BEAT_MS }
}

/** Rejects when `awaited` has not settled within so many milliseconds of beats. */
export async function withinBeats<T>(ms: number, awaited: Promise<T>): Promise<T> {
  const beats = startBeats()
  const late = Promise.withResolvers<never>()
  const watch = setInterval(() => {
    if (beats.elapsedMs() >= ms) late.reject(new Error(`nothing came within ${ms} ms of beats`))
  }, BEAT_MS)
  try {
    return await Promise.race([awaited, late.promise])
  } finally {
    clearInterval(watch)
  }
}
