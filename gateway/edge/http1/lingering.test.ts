import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { describe, it, type TestContext } from 'node:test'
import { connect as connectSecurely, createServer as createSecureServer } from 'node:tls'
import { makeAuthority } from '../../tls/demo/throw-away-ca.ts'
import { Lingering } from './lingering.ts'

/** More than the system takes for a client that reads nothing. */
const LARGE_BYTES = 16 * 1024 * 1024

interface Ends {
  readonly near: Socket
  readonly far: Socket
}

/** A connection whose client has ended its half. */
async function halfClosed(t: TestContext, secure: boolean): Promise<Ends> {
  const server = secure ? await secureServer() : createServer({ allowHalfOpen: true })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const open = { port, host: '127.0.0.1', allowHalfOpen: true }
  const far = secure ? connectSecurely({ ...open, rejectUnauthorized: false }) : connect(open)
  const [near] = (await once(server, secure ? 'secureConnection' : 'connection')) as [Socket]
  t.after(() => {
    near.destroy()
    far.destroy()
    server.close()
  })
  far.end('GET / HTTP/1.1\r\n\r\n')
  near.resume()
  await once(near, 'end')
  return { near, far }
}

async function secureServer(): Promise<Server> {
  const { keyPem, certPem } = await makeAuthority({ subject: 'CN=localhost' })
  return createSecureServer({ key: keyPem, cert: certPem, allowHalfOpen: true })
}

/** How many bytes the client gets before the end of the connection. */
async function readToEnd(far: Socket): Promise<number> {
  let bytes = 0
  for await (const piece of far) bytes += (piece as Buffer).length
  return bytes
}

describe('after the last response to a client that has ended its half', () => {
  it('a connection is closed at once, in one step, and the client gets all of the response', async (t) => {
    const { near, far } = await halfClosed(t, false)
    near.write('HTTP/1.1 200 OK\r\n\r\n')
    new Lingering(near, true, 0)
    assert.deepEqual([near.destroyed, near.writableEnded], [true, false])
    assert.equal(await readToEnd(far), 19)
  })

  it('a connection with bytes in our own queue is closed only when the system has taken them', async (t) => {
    const { near, far } = await halfClosed(t, false)
    near.write(Buffer.alloc(LARGE_BYTES))
    new Lingering(near, true, 0)
    assert.equal(near.destroyed, false)
    const closed = once(near, 'close')
    assert.equal(await readToEnd(far), LARGE_BYTES)
    await closed
  })

  it('a TLS connection ends with a close_notify, so that the client knows that nothing was cut off', async (t) => {
    const { near, far } = await halfClosed(t, true)
    near.write('HTTP/1.1 200 OK\r\n\r\n')
    new Lingering(near, true, 0)
    assert.equal(near.destroyed, false)
    const closed = once(near, 'close')
    assert.equal(await readToEnd(far), 19)
    await closed
    assert.equal(near.writableFinished, true)
  })
})
