import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { describe, it } from 'node:test'
import { boundedBody } from './bounded-body.ts'

async function read(stream: AsyncIterable<Buffer>): Promise<number> {
  let bytes = 0
  for await (const chunk of stream) bytes += chunk.length
  return bytes
}

describe('boundedBody', () => {
  it('passes a body of exactly its bound on', async () => {
    const source = new PassThrough()
    const bounded = boundedBody(source, { maxBytes: 10, onExceeded: () => assert.fail('not exceeded') })
    source.write('12345')
    source.end('67890')
    assert.equal(await read(bounded), 10)
  })

  it('reports a body one byte longer once and never ends as if it were whole', async () => {
    const source = new PassThrough()
    let exceeded = 0
    const bounded = boundedBody(source, { maxBytes: 9, onExceeded: () => exceeded++ })
    source.write('12345')
    source.end('67890')
    await assert.rejects(read(bounded))
    assert.equal(exceeded, 1)
  })

  it('breaks off when its source is broken off', async () => {
    const source = new PassThrough()
    const bounded = boundedBody(source, { maxBytes: 9, onExceeded: () => assert.fail('not exceeded') })
    source.write('123')
    setImmediate(() => source.destroy())
    await assert.rejects(read(bounded))
  })
})
