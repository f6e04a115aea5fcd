import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Readable } from 'node:stream'
import { describe, it } from 'node:test'
import { takeWhole } from '../edge/bodies/buffered-body.ts'
import { fieldsOf } from '../edge/syntax/field.test-support.ts'
import { CommonFields } from './common-fields.ts'
import { requestOf } from './contract/scripted.test-support.ts'
import { contentLength } from './request-body.ts'

function bodyOf(...chunks: (string | null)[]): Readable {
  const body = new Readable({ read() {} })
  for (const chunk of chunks) body.push(chunk === null ? null : Buffer.from(chunk))
  return body
}

describe('a body that is there already', () => {
  it('is taken whole, in however many pieces it came, and its source still ends', async () => {
    const source = bodyOf('abc', 'd', 'ef', null)
    assert.equal(takeWhole(source, 6)?.toString(), 'abcdef')
    await once(source, 'end')
  })

  it('is whole by its length, though its end has not been noticed', async () => {
    const source = bodyOf('abcdef')
    assert.equal(takeWhole(source, 6)?.toString(), 'abcdef')
    source.push(null)
    await once(source, 'end')
  })

  it('is left alone when it is not all there, of unknown length, longer, empty, flowing or destroyed', () => {
    const cases: [Readable, number | undefined][] = [
      [bodyOf('abc'), 6],
      [bodyOf('abcdef', null), undefined],
      [bodyOf('abcdefg', null), 6],
      [bodyOf(null), 0],
      [bodyOf('abcdef', null).resume(), 6],
      [bodyOf('abcdef', null).destroy(), 6],
    ]
    for (const [source, bytes] of cases) {
      const before = source.readableLength
      assert.equal(takeWhole(source, bytes), undefined)
      assert.equal(source.readableLength, before)
    }
  })
})

it('the length of a body is what Content-Length says, in whatever case', () => {
  const length = (own: string[], common: string[] = []) =>
    contentLength(requestOf({ headers: own, common: new CommonFields(fieldsOf(common)) }))
  assert.equal(length(['host', 'h', 'Content-Length', '6']), 6)
  assert.equal(length(['x', 'y'], ['host', 'h', 'Content-Length', '6']), 6)
  assert.equal(length(['host', 'h']), undefined)
})
