import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { beforeEach, describe, it, type TestContext } from 'node:test'
import { connect as connectSecurely, createServer as createSecureServer } from 'node:tls'
import { makeAuthority, makeCertificate, SERVER_AUTH } from '../../../tls/demo/throw-away-ca.ts'
import { until } from '../conformance/client.test-support.ts'
import { turns } from '../conformance/wire.test-support.ts'
import { takenBytes, WriteWatch } from './write-watch.ts'

describe('the watch over what a client takes', () => {
  let nowMs: number
  let wire: { bytesWritten: number; writableLength: number }
  let watch: WriteWatch

  beforeEach(() => {
    nowMs = 0
    wire = { bytesWritten: 0, writableLength: 0 }
    watch = new WriteWatch(wire as unknown as Socket, () => nowMs)
  })

  /** Writes a response that the socket does not accept. */
  const stall = (idleMs: number) => {
    wire = Object.assign(wire, { bytesWritten: wire.bytesWritten + 1000, writableLength: 1000 })
    watch.begin(idleMs)
  }
  const drain = () => {
    wire.writableLength = 0
  }
  /** The time at which the watch, asked once a second, reports a stall. */
  const stalledAt = () => {
    while (!watch.isStalled(nowMs) && nowMs < 1_000_000) nowMs += 1000
    return nowMs
  }

  it('gives each response its own time, longer or shorter than the time of the response before', () => {
    stall(2000)
    drain()
    nowMs = 500
    stall(300_000)
    assert.ok(stalledAt() >= 300_500)

    nowMs = 0
    drain()
    watch.isStalled(2_000_000)
    stall(300_000)
    drain()
    nowMs = 500
    stall(2000)
    assert.ok(stalledAt() <= 3500)
  })

  it('goes on with the time of a response for the rest of it', () => {
    stall(300_000)
    watch.beginUnlessBegun(2000)
    assert.ok(stalledAt() >= 300_000)
  })

  it('counts from when the client last took something', () => {
    stall(2000)
    nowMs = 1000
    wire.writableLength = 500
    assert.equal(watch.isStalled(nowMs), false)
    watch.begin(2000)
    assert.equal(stalledAt(), 3000)
  })

  it('does not watch what has been taken', () => {
    stall(2000)
    drain()
    assert.equal(stalledAt(), 1_000_000)
  })
})

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

  it('grows over TLS, too, while one long write is under way', async (t) =>
    growsWithinOneWrite(await openTo(t, await secureServer(), 'secureConnection')))

  it('is what was written less what still waits, if the socket has no handle', () => {
    const socket = { bytesWritten: 10, writableLength: 3, _handle: null } as unknown as Socket
    assert.equal(takenBytes(socket), 7)
  })
})
