import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Memory } from './memory-rooms.ts'
import { settledHeapBytes } from './settled-heap.ts'

/** How many a memory held in the end, and what this process took for them. */
export interface Filled {
  readonly held: number
  readonly heapBytes: number
  /** Resident in the process, with what has been freed and not given back. */
  readonly residentBytes: number
}

/** Compiles what it is that fills, so that its code is not counted. */
const WARM_UP = 500
const A_TURN = 1_000

/** Offers so many to the memory. @param spell how each text is come by; of itself as it is */
export async function fill(
  memory: Memory,
  offered: number,
  spell: (text: string) => string = (text) => text,
): Promise<Filled> {
  const warm = await memory.begin()
  for (let i = 0; i < WARM_UP; i++) warm.take(spell(warm.textOf(i)))
  const begun = await memory.begin()
  const heapBefore = await settledHeapBytes()
  const residentBefore = process.memoryUsage.rss()
  for (let i = 0; i < offered; i++) {
    begun.take(spell(begun.textOf(i)))
    if (i % A_TURN === 0) await nextTurn()
  }
  await settledHeapBytes()
  const held = begun.held()
  const heapBytes = (await settledHeapBytes()) - heapBefore
  const residentBytes = process.memoryUsage.rss() - residentBefore
  // Without a use after it, it could have been collected before.
  begun.take(begun.textOf(offered))
  return { held, heapBytes, residentBytes }
}
