import { closeSync, readSync } from 'node:fs'
import type { LineHasher } from '../../audit/seals/line-hasher.ts'
import { blocksOf, openPlain } from '../../audit/segments/read-segment.ts'
import type { Segment } from '../../audit/segments/segment.ts'

/** Gives the hasher all of a segment, part by part; also if the gateway has renamed or compressed it since it was listed. */
export async function* feed(segment: Segment, hasher: LineHasher): AsyncGenerator<void, void, undefined> {
  // Without a stream there is nothing to copy or to wait for.
  const fd = openPlain(segment)
  if (fd === undefined) {
    for await (const block of blocksOf(segment)) yield hasher.push(block)
    return
  }
  try {
    for (let count = -1; count !== 0; ) {
      count = readSync(fd, hasher.space)
      yield hasher.take(count)
    }
  } finally {
    closeSync(fd)
  }
}
