import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { BoundedBody } from './bounded-body.ts'

class Body extends BoundedBody {
  constructor() {
    super({ read: () => {} })
  }

  receive(text: string): void {
    if (this.takes(text.length)) this.push(text)
  }

  complete(): void {
    if (!this.isExceeded) this.push(null)
  }
}

describe('a bounded body', () => {
  it('passes on exactly its bound', async () => {
    const body = new Body()
    assert.equal(
      body.bound(10, () => assert.fail('not exceeded')),
      true,
    )
    body.receive('12345')
    body.receive('67890')
    body.complete()
    assert.equal((await body.toArray()).join(''), '1234567890')
  })

  it('reports one byte more once, passes nothing of that piece on, and never ends', async () => {
    const body = new Body()
    let exceeded = 0
    body.bound(9, () => exceeded++)
    body.receive('12345')
    body.receive('67890')
    body.receive('1')
    body.complete()
    assert.equal(exceeded, 1)
    assert.equal(String(body.read()), '12345')
    body.resume()
    await new Promise(setImmediate)
    assert.equal(body.readableEnded, false)
  })

  it('says at once that more has come than a bound that is set late', () => {
    const body = new Body()
    body.receive('1234567890')
    assert.equal(
      body.bound(9, () => assert.fail('it is said')),
      false,
    )
    body.receive('1')
  })
})
