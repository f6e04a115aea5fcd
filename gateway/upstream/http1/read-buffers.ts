/** What one read takes at most. */
const BUFFER_BYTES = 64 * 1024
/** More than are needed at once: a buffer is free again when its piece has been written. */
const MAX_SPARE = 32

/**
 * Connections read into this one buffer between large bodies. What must outlive a read is copied before the next one. So an
 * idle connection holds no buffer, and a read allocates none.
 */
export const sharedBuffer: Buffer = Buffer.allocUnsafeSlow(BUFFER_BYTES)

const spare: Buffer[] = []

/** A buffer that nobody else reads into. */
export function takeBuffer(): Buffer {
  return spare.pop() ?? Buffer.allocUnsafeSlow(BUFFER_BYTES)
}

/** Gives back a buffer that nothing refers to any more. */
export function giveBuffer(buffer: Buffer): void {
  if (spare.length < MAX_SPARE) spare.push(buffer)
}
