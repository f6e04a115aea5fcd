import { closeSync, openSync, readSync } from 'node:fs'
import type { LineHasher } from '../../audit/seals/line-hasher.ts'
import { blocksOf } from '../../audit/segments/read-segment.ts'
import type { Segment } from '../../audit/segments/segment.ts'

/** Gives the hasher all of a segment, part by part. */
export async function* feed(segment: Segment, hasher: LineHasher): AsyncGenerator<void, void, undefined> {
  if (segment.compression !== 'none') {
    for await (const block of blocksOf(segment)) yield hasher.push(block)
    return
  }
  // Without a stream there is nothing to copy or to wait for.
  const fd = openSync(segment.path, 'r')
  try {
    for (let count = -1; count !== 0; ) {
      count = readSync(fd, hasher.space)
      yield hasher.take(count)
    }
  } finally {
    closeSync(fd)
  }
}
