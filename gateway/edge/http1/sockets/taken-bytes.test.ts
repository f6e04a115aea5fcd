import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { describe, it, type TestContext } from 'node:test'
import { connect as connectSecurely, createServer as createSecureServer } from 'node:tls'
import { makeAuthority, makeCertificate, SERVER_AUTH } from '../../../tls/demo/throw-away-ca.ts'
import { until } from '../conformance/client.test-support.ts'
import { turns } from '../conformance/wire.test-support.ts'
import { takenBytes } from './taken-bytes.ts'

/** More than the system takes for a client that reads nothing. */
const WRITE_BYTES = 32 * 1024 * 1024

async function openTo(t: TestContext, server: Server, name: 'connection' | 'secureConnection') {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const wire = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const far = name === 'connection' ? wire : connectSecurely({ socket: wire, rejectUnauthorized: false })
  const [near] = (await once(server, name)) as [Socket]
  t.after(() => {
    for (const socket of [near, far, wire]) socket.destroy()
    server.close()
  })
  return { near, far, wire }
}

async function secureServer(): Promise<Server> {
  const issuer = await makeAuthority({ subject: 'CN=Root' })
  const made = await makeCertificate({
    subject: 'CN=localhost',
    issuer,
    san: [],
    extendedKeyUsages: [SERVER_AUTH],
  })
  return createSecureServer({ key: made.keyPem, cert: made.certPem })
}

/** The client takes some of one long write, and stops. */
async function growsWithinOneWrite(opened: { near: Socket; far: Socket; wire: Socket }): Promise<void> {
  const { near, far, wire } = opened
  near.on('error', () => {})
  near.write(Buffer.alloc(WRITE_BYTES))
  await turns(20)
  const before = takenBytes(near)
  wire.on('data', () => {})
  far.on('data', () => {})
  await until(() => takenBytes(near) > before || near.writableLength === 0)
  wire.pause()
  far.pause()
  assert.equal(near.writableLength, WRITE_BYTES)
}

describe('what the system has taken', () => {
  it('grows while one long write is under way', async (t) =>
    growsWithinOneWrite(await openTo(t, createServer(), 'connection')))

  it('does so over TLS, too', async (t) =>
    growsWithinOneWrite(await openTo(t, await secureServer(), 'secureConnection')))

  it('is what has been written, where a socket has no count below it', () => {
    const socket = { bytesWritten: 10, writableLength: 3, _handle: null } as unknown as Socket
    assert.equal(takenBytes(socket), 7)
  })
})
