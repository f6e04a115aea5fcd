/** Threads of one gateway that may take part at once, the main thread among them. */
export const SEATS = 130
/** The main thread's. */
export const MAIN_SEAT = 0

/** Words of 32 bits. Those of one seat, or of one purpose, are on a cache line of their own. */
const LINE = 16
/** Lock, end of the ring and time on one line: each step needs all three, so that one line passes between processors, not three. */
export const LOCK = 0
export const WRITTEN = 1
/** Two words: the time of the last step, as one 64-bit float. */
export const LAST_MS = 2
export const MARKS = LINE
/** Never written: waiting on it is the only way to rest without giving a step away. */
export const REST = MARKS + LINE - 1
/** Every seat that was ever taken is below: nobody has to look at those beyond. */
export const SEATS_USED = 2 * LINE
const FIRST_SEAT = 3 * LINE
const CONTROL_BYTES = (FIRST_SEAT + SEATS * LINE) * 4

/**
 * What a seat's words are: whether it is taken, how far its thread has read, its heartbeat, whether it is fit, and
 * how many exchanges and tunnels it has. */
export const STATE = 0
export const READ = 1
export const BEAT = 2
export const UNFIT = 3
export const EXCHANGES = 4
export const TUNNELS = 5

/** Of a seat. `LOST`: its thread was left behind, and must not go on. */
export const EMPTY = 0
export const TAKEN = 1
export const LOST = 2

/** Room for some 100,000 events. */
const RING_BYTES = 8 * 1024 * 1024

/** What all threads of one gateway have in common; to be handed to each of them. */
export interface SharedMemory {
  readonly control: SharedArrayBuffer
  readonly ring: SharedArrayBuffer
}

/** @param ringBytes a power of two, at least 4096; for tests of a ring that is full */
export function createSharedMemory(ringBytes: number = RING_BYTES): SharedMemory {
  return { control: new SharedArrayBuffer(CONTROL_BYTES), ring: new SharedArrayBuffer(ringBytes) }
}

/** Index of a word of a seat. */
export function wordOf(seat: number, word: number): number {
  return FIRST_SEAT + seat * LINE + word
}
