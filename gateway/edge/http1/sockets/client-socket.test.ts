import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { describe, it, type TestContext } from 'node:test'
import { until } from '../conformance/client.test-support.ts'
import { acceptClientSockets, ClientSocket, readClient } from './client-socket.ts'

const KIB = 1024

/** Both ends of a connection. */
async function pair(
  t: TestContext,
  prepare = acceptClientSockets,
): Promise<{ client: Socket; served: Socket }> {
  const server = createServer({ allowHalfOpen: true })
  prepare(server)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const accepted = once(server, 'connection') as Promise<[Socket]>
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const [served] = await accepted
  t.after(() => {
    client.destroy()
    served.destroy()
    server.close()
  })
  return { client, served }
}

/** Collects what comes. Copies it, because the buffer is overwritten. */
function collector(): { text: string; received(bytes: Buffer, length: number): void } {
  return {
    text: '',
    received(bytes, length) {
      this.text += bytes.toString('latin1', 0, length)
    },
  }
}

describe('a client socket', () => {
  it('gives what comes to its reader, and after that to its stream', async (t) => {
    const { client, served } = await pair(t)
    assert.ok(served instanceof ClientSocket)
    const reader = collector()
    const stop = readClient(served, reader)
    client.write('one')
    await until(() => reader.text === 'one')
    stop(Buffer.from('back '))
    client.write('two')
    let text = ''
    served.on('data', (piece) => {
      text += piece
    })
    served.resume()
    await until(() => text === 'back two')
    assert.equal(reader.text, 'one')
  })

  it('gives what waits in its stream first', async (t) => {
    const { client, served } = await pair(t)
    served.pause()
    client.write('one ')
    await until(() => served.bytesRead === 4)
    served.unshift(Buffer.from('none '))
    const reader = collector()
    readClient(served, reader)
    client.write('two')
    served.resume()
    await until(() => reader.text === 'none one two')
  })

  it('reads nothing while it is held back; while it is paused, it reads ahead until its stream is full', async (t) => {
    const { client, served } = await pair(t)
    assert.ok(served instanceof ClientSocket)
    const reader = collector()
    readClient(served, reader)
    const sent = 'x'.repeat(1024 * KIB)
    served.holdBack()
    client.write(sent)
    await until(() => client.bytesWritten > 0)
    await new Promise(setImmediate)
    assert.equal(served.bytesRead, 0)
    for (let i = 0; i < 20; i++) {
      served.readAhead()
      await new Promise(setImmediate)
    }
    await until(() => served.readableLength >= served.readableHighWaterMark)
    assert.ok(served.readableLength < 3 * served.readableHighWaterMark, `${served.readableLength}`)
    assert.equal(reader.text, '')
    served.resume()
    await until(() => reader.text.length === sent.length)
  })

  it('ends, and closes with its client', async (t) => {
    const { client, served } = await pair(t)
    const reader = collector()
    readClient(served, reader)
    client.end('bye')
    await once(served, 'end')
    assert.equal(reader.text, 'bye')
    assert.equal(served.writable, true)
    served.end()
    await once(served, 'close')
  })

  it('is not made where Node has no callback for it', () => {
    for (const _handle of [null, {}]) {
      const server = Object.assign(new EventEmitter(), { _handle }) as unknown as Server
      acceptClientSockets(server)
      server.emit('listening')
      assert.deepEqual(_handle, _handle === null ? null : {})
    }
  })
})

it('a socket of node:net gives what comes to its reader, too', async (t) => {
  const { client, served } = await pair(t, () => {})
  assert.ok(!(served instanceof ClientSocket))
  const reader = collector()
  const stop = readClient(served, reader)
  client.write('one')
  await until(() => reader.text === 'one')
  stop(Buffer.from('back'))
  assert.equal(String(served.read()), 'back')
})
