/** What one read takes at most. */
const BUFFER_BYTES = 64 * 1024
/** Of each kind. Beyond that a buffer is left to the garbage collector. */
const MAX_KEPT = 64

/** Who may still need the bytes of a buffer. */
interface Holder {
  readonly isHolding: boolean
}

/**
 * Connections read into this one buffer between large bodies. What must outlive a read is copied before the next one. So an
 * idle connection holds no buffer, and a read allocates none.
 */
export const sharedBuffer: Buffer = Buffer.allocUnsafeSlow(BUFFER_BYTES)

/*
 * Buffers of large bodies. They are used again because allocating 64 KiB for each read makes V8 collect garbage all the time:
 * it counts what lies outside its heap.
 */
const spare: Buffer[] = []
const lent: { readonly buffer: Buffer; readonly holder: Holder }[] = []

/** A buffer that nobody else reads into. */
export function takeBuffer(): Buffer {
  return spare.pop() ?? takeBack() ?? Buffer.allocUnsafeSlow(BUFFER_BYTES)
}

/** Gives back a buffer that nothing refers to any more. */
export function giveBuffer(buffer: Buffer): void {
  if (spare.length < MAX_KEPT) spare.push(buffer)
}

/** Gives back a buffer that `holder` still needs for a while. */
export function lendBuffer(buffer: Buffer, holder: Holder): void {
  if (lent.length < MAX_KEPT) lent.push({ buffer, holder })
}

/** @returns a buffer whose holder does not need it any more. */
function takeBack(): Buffer | undefined {
  const at = lent.findIndex(({ holder }) => !holder.isHolding)
  if (at === -1) return undefined
  const found = lent[at]
  const last = lent.pop()
  if (last !== undefined && at < lent.length) lent[at] = last
  return found?.buffer
}
