import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Memory } from './memory-rooms.ts'
import { settledHeapBytes } from './settled-heap.ts'

export interface Filled {
  readonly held: number
  readonly heapBytes: number
  /** Resident memory, including what was freed but not returned to the system. */
  readonly residentBytes: number
}

/** So many entries are offered to another memory first, so that compiled code is not counted. */
const WARM_UP = 500
const A_TURN = 1_000

/** Offers a new memory `offered` entries. @param copyOf copies each text; by default it is used as it is */
export async function fill(
  memory: Memory,
  offered: number,
  copyOf: (text: string) => string = (text) => text,
): Promise<Filled> {
  const warm = await memory.begin()
  for (let i = 0; i < WARM_UP; i++) warm.take(copyOf(warm.textOf(i)))
  const begun = await memory.begin()
  const heapBefore = await settledHeapBytes()
  const residentBefore = process.memoryUsage.rss()
  for (let i = 0; i < offered; i++) {
    begun.take(copyOf(begun.textOf(i)))
    if (i % A_TURN === 0) await nextTurn()
  }
  await settledHeapBytes()
  const held = begun.held()
  const heapBytes = (await settledHeapBytes()) - heapBefore
  const residentBytes = process.memoryUsage.rss() - residentBefore
  // Keeps `begun` from being collected earlier.
  begun.take(begun.textOf(offered))
  return { held, heapBytes, residentBytes }
}
