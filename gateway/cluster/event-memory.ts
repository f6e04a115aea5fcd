/** Maximum number of threads, including the main thread. */
export const SEATS = 130
/** The main thread's. */
export const MAIN_SEAT = 0

/** 32-bit words in a cache line. Each seat and each purpose has a cache line of its own. */
const LINE = 16
/** Lock, end of the ring and time share a cache line, because each step needs all three. */
export const LOCK = 0
export const WRITTEN = 1
/** Time of the last step; two words, a 64-bit float. */
export const LAST_MS = 2
export const FLAG_WORDS = LINE
/** Never written; waiting on it pauses a thread within a step. */
export const PAUSE = FLAG_WORDS + LINE - 1
/** One above the highest seat that was ever taken. */
export const SEATS_USED = 2 * LINE
const FIRST_SEAT = 3 * LINE
const CONTROL_BYTES = (FIRST_SEAT + SEATS * LINE) * 4

/**
 * The words of a seat: its state, how far its thread has read, its heartbeat, whether it is unhealthy, and how many
 * exchanges and tunnels it has.
 */
export const STATE = 0
export const READ = 1
export const HEARTBEATS = 2
export const UNHEALTHY = 3
export const EXCHANGES = 4
export const TUNNELS = 5

/** States of a seat. `LOST`: its thread fell too far behind and must stop. */
export const EMPTY = 0
export const TAKEN = 1
export const LOST = 2

/** Room for some 100,000 events. */
const RING_BYTES = 8 * 1024 * 1024

/** Memory shared by all threads of one gateway. */
export interface SharedMemory {
  readonly control: SharedArrayBuffer
  readonly ring: SharedArrayBuffer
}

/** @param ringBytes a power of two, at least 4096; smaller in tests of a full ring */
export function createSharedMemory(ringBytes: number = RING_BYTES): SharedMemory {
  return { control: new SharedArrayBuffer(CONTROL_BYTES), ring: new SharedArrayBuffer(ringBytes) }
}

/** Index of a word of a seat. */
export function wordOf(seat: number, word: number): number {
  return FIRST_SEAT + seat * LINE + word
}
