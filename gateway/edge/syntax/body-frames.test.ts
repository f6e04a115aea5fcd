import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { BodyFrames } from './body-frames.ts'

interface Taken {
  readonly data: Buffer
  /** Where the data stood in the read. */
  readonly from: number
}

/** What the frames in each of `reads` hold. @param reads are changed */
function takenOf(reads: readonly Buffer[], frames = new BodyFrames()): Taken[][] {
  frames.begin('chunks')
  return reads.map((bytes) => {
    const taken: Taken[] = []
    let at = 0
    while (at < bytes.length && !frames.last && frames.fault === undefined) {
      const from = at
      const hasData = frames.hasData
      at = hasData ? frames.takeData(bytes, at, bytes.length) : frames.read(bytes, at, bytes.length)
      if (hasData) taken.push({ data: Buffer.from(bytes.subarray(from, frames.dataEnd)), from })
    }
    return taken
  })
}

function framed(content: Buffer, sizes: readonly number[]): Buffer {
  const parts: Buffer[] = []
  for (let at = 0, i = 0; at < content.length; i++) {
    const piece = content.subarray(at, at + (sizes[i % sizes.length] as number))
    parts.push(
      Buffer.from(`${piece.length.toString(16)}${i < 9 && i % 3 === 0 ? ';a="b"' : ''}\r\n`),
      piece,
      Buffer.from('\r\n'),
    )
    at += piece.length
  }
  return Buffer.concat([...parts, Buffer.from('0\r\n')])
}

function cut(bytes: Buffer, lengths: readonly number[]): Buffer[] {
  const reads: Buffer[] = []
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const length = lengths[i % lengths.length] as number
    reads.push(Buffer.from(bytes.subarray(at, at + length)))
    at += length
  }
  return reads
}

const RUNS = { numRuns: 50 }
const SIZES = fc.array(fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 9000 })), {
  minLength: 1,
  maxLength: 5,
})

describe('the chunks of a body', () => {
  it('make up the body, however they are cut and read', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ minLength: 1, maxLength: 6000, size: 'max' }),
        SIZES,
        SIZES,
        (bytes, sizes, lengths) => {
          const content = Buffer.from(bytes)
          const taken = takenOf(cut(framed(content, sizes), lengths)).flat()
          assert.deepEqual(Buffer.concat(taken.map(({ data }) => data)), content)
        },
      ),
      RUNS,
    )
  })

  it('are joined to one piece for each read when they are short', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ minLength: 1, maxLength: 6000, size: 'max' }),
        fc.integer({ min: 1, max: 4096 }),
        SIZES,
        (bytes, size, lengths) => {
          for (const taken of takenOf(cut(framed(Buffer.from(bytes), [size]), lengths)))
            assert.ok(taken.length <= 1, `${taken.length} pieces`)
        },
      ),
      RUNS,
    )
  })

  it('stay where they stand when they are long', () => {
    const content = Buffer.alloc(20_000, 'x')
    const [taken] = takenOf([framed(content, [5000])])
    assert.deepEqual(
      taken?.map(({ data, from }) => [data.length, from]),
      [12, 5020, 10_028, 15_042].map((from) => [5000, from]),
    )
  })

  it('are taken until there is a fault, and nothing after it', () => {
    const frames = new BodyFrames()
    const [taken] = takenOf([Buffer.from('1\r\na\r\n1\r\nb\r\n1\rXc\r\n')], frames)
    assert.deepEqual(
      [taken?.map(({ data }) => data.toString()), frames.fault?.slice(0, 17)],
      [['ab'], 'a carriage return'],
    )
  })

  it('are refused when too many are tiny, counted anew for each body', () => {
    const frames = new BodyFrames(1000)
    for (const [count, size, fault] of [
      [1000, 1, undefined],
      [1001, 1, 'more than 1000 chunks of less than 8 bytes'],
      [1001, 7, 'more than 1000 chunks of less than 8 bytes'],
      [5000, 8, undefined],
    ] as const) {
      takenOf([framed(Buffer.alloc(count * size), [size])], frames)
      assert.deepEqual(
        [frames.fault, frames.tooLarge, frames.last],
        [fault, fault !== undefined, fault === undefined],
      )
    }
  })
})
