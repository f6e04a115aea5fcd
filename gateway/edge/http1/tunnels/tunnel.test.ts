import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type Duplex, duplexPair } from 'node:stream'
import { afterEach, beforeEach, describe, it, mock } from 'node:test'
import { tunnel } from './tunnel.ts'

const turn = () => new Promise(setImmediate)

describe('a tunnel', () => {
  let client: Duplex
  let downstream: Duplex
  let upstream: Duplex
  let server: Duplex
  let ended: number

  beforeEach(() => {
    mock.timers.enable({ apis: ['setTimeout'] })
    const [near, far] = [duplexPair(), duplexPair()]
    client = near[0]
    downstream = near[1]
    upstream = far[0]
    server = far[1]
    ended = 0
    tunnel(downstream, upstream, () => {
      ended += 1
    })
  })
  afterEach(() => {
    mock.timers.reset()
  })

  it('passes on what a side had sent before it closed', async () => {
    server.write('last ')
    server.end('words')
    let heard = ''
    client.on('data', (bytes: Buffer) => {
      heard += bytes.toString()
    })
    await once(client, 'end')
    assert.equal(heard, 'last words')
  })

  it('ends once, when both sides have', async () => {
    client.resume().end()
    await once(server.resume(), 'end')
    assert.equal(ended, 0)
    server.end()
    await once(client, 'end')
    await turn()
    assert.equal(ended, 1)
  })

  it('closes the other side when one fails', async () => {
    upstream.destroy(new Error('reset'))
    await turn()
    assert.equal(downstream.destroyed, true)
    assert.equal(ended, 1)
  })

  it('waits ten seconds for a side that does not end when the other has', async () => {
    client.resume().end()
    await once(server.resume(), 'end')
    mock.timers.tick(9999)
    assert.equal(upstream.destroyed, false)
    mock.timers.tick(1)
    await turn()
    assert.equal(upstream.destroyed && downstream.destroyed, true)
    assert.equal(ended, 1)
  })

  it('waits as long for a side that does not read when the other has closed', async () => {
    server.write(Buffer.alloc(1_000_000))
    await turn()
    upstream.destroy()
    await turn()
    assert.equal(downstream.destroyed, false)
    mock.timers.tick(10_000)
    await turn()
    assert.equal(downstream.destroyed, true)
    assert.equal(ended, 1)
  })
})
