import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { type Duplex, duplexPair } from 'node:stream'
import { afterEach, beforeEach, describe, it, mock, type TestContext } from 'node:test'
import { type Lapse, type TunnelEnd, Tunnels, type TunnelTerms, tunnel } from './tunnels.ts'

async function pair(t: TestContext): Promise<{ near: Socket; far: Socket }> {
  const server = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const far = connect({
    port: (server.address() as AddressInfo).port,
    host: '127.0.0.1',
    allowHalfOpen: true,
  })
  const [near] = (await once(server, 'connection')) as [Socket]
  t.after(() => {
    near.destroy()
    far.destroy()
    server.close()
  })
  return { near, far }
}

/** One tunnel between a client and a service of the test. */
async function tunnelled(t: TestContext, terms: Partial<TunnelTerms> = {}) {
  const time = { nowMs: 0 }
  const looked = { times: 0 }
  const ends: TunnelEnd[] = []
  const tunnels = new Tunnels(1, () => {
    looked.times += 1
    return time.nowMs
  })
  const [client, service] = [await pair(t), await pair(t)]
  service.far.on('data', () => {})
  client.far.on('data', () => {})
  tunnels.take('a', false)
  tunnels.open('a', client.near, service.near, {
    idleMs: 60_000,
    totalMs: undefined,
    lapsed: () => undefined,
    ended: (why) => ends.push(why),
    ...terms,
  })
  const swept = async () => {
    const from = looked.times
    while (looked.times < from + 2) await new Promise((resolve) => setTimeout(resolve, 5))
  }
  const over = async () => {
    while (ends.length === 0) await new Promise((resolve) => setTimeout(resolve, 5))
    return ends[0]
  }
  return { time, tunnels, client, service, ends, swept, over }
}

describe('a tunnel', () => {
  it('is idle when neither side has sent anything for its time, and not before', async (t) => {
    const { time, tunnels, client, service, ends, swept, over } = await tunnelled(t)
    for (const side of [client, service]) {
      time.nowMs += 59_999
      side.far.write('x')
      await once(side === client ? service.far : client.far, 'data')
      await swept()
    }
    time.nowMs += 59_999
    await swept()
    assert.deepEqual(ends, [])
    time.nowMs += 1
    assert.equal(await over(), 'idle')
    assert.equal(tunnels.taken, 0)
    assert.ok(client.near.destroyed && service.near.destroyed)
  })

  it('is over after its total, although it is used', async (t) => {
    const { time, client, service, swept, over } = await tunnelled(t, { totalMs: 5000 })
    time.nowMs = 4999
    client.far.write('x')
    await once(service.far, 'data')
    await swept()
    assert.equal(client.near.destroyed, false)
    time.nowMs = 5000
    assert.equal(await over(), 'timeout')
  })

  it('asks once a second whether its caller may go on', async (t) => {
    let asked = 0
    let lapse: Lapse | undefined
    const lapsed = () => {
      asked += 1
      return lapse
    }
    const { time, swept, over } = await tunnelled(t, { lapsed })
    time.nowMs = 999
    await swept()
    assert.equal(asked, 0)
    time.nowMs = 1000
    await swept()
    await swept()
    assert.equal(asked, 1)
    lapse = 'session_revoked'
    time.nowMs = 2000
    assert.equal(await over(), 'session_revoked')
  })

  it('is not kept open by bytes that nobody takes', async (t) => {
    const { time, client, service, swept, over } = await tunnelled(t)
    service.far.pause()
    const pour = () => {
      while (!client.far.destroyed && client.far.write(Buffer.alloc(64 * 1024)));
    }
    client.far.on('drain', pour)
    client.far.on('error', () => {})
    pour()
    for (let before = -1; before !== client.near.bytesRead; ) {
      before = client.near.bytesRead
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    time.nowMs += 1000
    await swept()
    time.nowMs += 60_000
    assert.equal(await over(), 'idle')
  })
})

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

  it('ends once, when both sides have ended', async () => {
    client.resume().end()
    await once(server.resume(), 'end')
    assert.equal(ended, 0)
    server.end()
    await once(client, 'end')
    await turn()
    assert.equal(ended, 1)
  })

  it('closes one side when the other fails', async () => {
    upstream.destroy(new Error('reset'))
    await turn()
    assert.equal(downstream.destroyed, true)
    assert.equal(ended, 1)
  })

  it('waits ten seconds for a side that does not end when the other has ended', async () => {
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
