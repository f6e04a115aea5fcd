import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Readable } from 'node:stream'
import { describe, it } from 'node:test'
import { wholeBody } from './whole-body.ts'

function bodyOf(...chunks: (string | null)[]): Readable {
  const body = new Readable({ read() {} })
  for (const chunk of chunks) body.push(chunk === null ? null : Buffer.from(chunk))
  return body
}

const LENGTH_6 = ['host', 'h', 'Content-Length', '6']

describe('a body that is there already', () => {
  it('is taken whole, in however many pieces it came, and its source still ends', async () => {
    const source = bodyOf('abc', 'd', 'ef', null)
    assert.equal(wholeBody(source, LENGTH_6)?.toString(), 'abcdef')
    await once(source, 'end')
  })

  it('is whole by its length, though its end has not been noticed', async () => {
    const source = bodyOf('abcdef')
    assert.equal(wholeBody(source, LENGTH_6)?.toString(), 'abcdef')
    source.push(null)
    await once(source, 'end')
  })

  it('is left alone when it is not all there, of unknown length, longer, empty, flowing or destroyed', () => {
    const cases: [Readable, readonly string[]][] = [
      [bodyOf('abc'), LENGTH_6],
      [bodyOf('abcdef', null), ['host', 'h']],
      [bodyOf('abcdefg', null), LENGTH_6],
      [bodyOf(null), ['content-length', '0']],
      [bodyOf('abcdef', null).resume(), LENGTH_6],
      [bodyOf('abcdef', null).destroy(), LENGTH_6],
    ]
    for (const [source, headers] of cases) {
      const before = source.readableLength
      assert.equal(wholeBody(source, headers), undefined)
      assert.equal(source.readableLength, before)
    }
  })
})
