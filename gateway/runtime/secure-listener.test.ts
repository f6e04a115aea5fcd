import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { it, type TestContext } from 'node:test'
import { connect, type SecureVersion } from 'node:tls'
import { connectionsOf, respondEmpty, scribe } from '../edge/http1/conformance/scribe.test-support.ts'
import type { Connections } from '../edge/http1/connections.ts'
import type { Exchange } from '../exchange.ts'
import { makeFixture, makeServer, materialOf, textsOf } from '../tls/listener/connect.test-support.ts'
import { firstDayKey, randomDayKey, TicketKeys } from '../tls/listener/ticket-keys.ts'
import type { TlsTexts } from '../tls/listener/tls-context.ts'
import { SecureListener } from './public-listeners.ts'

const DAY_MS = 86_400_000
const NOON = Date.UTC(2026, 10, 23, 12)
const VERSIONS = ['TLSv1.2', 'TLSv1.3'] as const
const SECRET = 'a-secret-of-more-than-32-characters'
const fixture = await makeFixture()
const certificate = { cert: fixture.server.certPem, key: fixture.server.keyPem }

/** The listener of a gateway, with its own key of tickets and a clock. */
async function listening(
  t: TestContext,
  more: Partial<TlsTexts> = {},
  tickets = new TicketKeys(randomDayKey(NOON)),
) {
  const clock = { nowMs: NOON }
  const material = (texts: Partial<TlsTexts>) => materialOf(textsOf(fixture, { ...more, ...texts }))
  const handler = scribe({ begun: respondEmpty })
  const connections = connectionsOf(handler) as unknown as Connections<Exchange>
  const secure = new SecureListener(connections, material({}), {
    handshakeMs: 60_000,
    http2: false,
    staples: true,
    tickets,
    clock: () => clock.nowMs,
  })
  const { server, ...http } = secure.http
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(async () => {
    http.closeAllConnections()
    await http.close()
  })
  return { secure, clock, material, port: (server.address() as AddressInfo).port }
}

/** Makes one connection. @returns whether it resumed the session, and the last session that the server offered */
async function handshake(port: number, maxVersion: SecureVersion, session?: Buffer) {
  const offered: Buffer[] = []
  const socket = connect({
    port,
    host: '127.0.0.1',
    servername: 'localhost',
    ca: fixture.ca.certPem,
    ALPNProtocols: ['http/1.1'],
    maxVersion,
    ...(session && { session }),
  })
  socket.on('session', (each: Buffer) => void offered.push(each))
  await once(socket, 'secureConnect')
  const resumed = socket.isSessionReused()
  socket.end('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
  await once(socket.resume(), 'close')
  // A ticket of a resumed session is not renewed.
  assert.equal(offered.length === 0, resumed)
  return { resumed, session: offered.at(-1) }
}

for (const version of VERSIONS) {
  it(`a session of ${version} is resumed until the day is over, and a later one by the key of the new day`, async (t) => {
    const { secure, clock, port } = await listening(t)
    const { session } = await handshake(port, version)
    clock.nowMs += DAY_MS / 2 - 1
    secure.renewTicketKey()
    assert.equal((await handshake(port, version, session)).resumed, true)
    clock.nowMs += 1
    secure.renewTicketKey()
    const next = await handshake(port, version, session)
    assert.equal(next.resumed, false)
    assert.equal((await handshake(port, version, next.session)).resumed, true)
  })

  it(`a session of ${version} is resumed only with the certificate and the ticket secret that it began with`, async (t) => {
    const { secure, port, material } = await listening(t, { ticketKey: SECRET })
    const { session } = await handshake(port, version)
    const renewed = await makeServer(fixture.ca)
    secure.enforce(material({ cert: renewed.certPem, key: renewed.keyPem }))
    assert.equal((await handshake(port, version, session)).resumed, false)
    secure.enforce(material({ ...certificate, ticketKey: `another-${SECRET}` }))
    assert.equal((await handshake(port, version, session)).resumed, false)
    secure.enforce(material(certificate))
    assert.equal((await handshake(port, version, session)).resumed, true)
  })

  it(`a session of ${version} is resumed by another gateway with the same secret and certificate, and by no other`, async (t) => {
    const one = await listening(t, { ticketKey: SECRET })
    const { session } = await handshake(one.port, version)
    const resumed = async (more: Partial<TlsTexts>, tickets?: TicketKeys) =>
      (await handshake((await listening(t, more, tickets)).port, version, session)).resumed
    const renewed = await makeServer(fixture.ca)
    assert.equal(await resumed({ ticketKey: SECRET }), true)
    assert.equal(await resumed({ ticketKey: `another-${SECRET}` }), false)
    assert.equal(await resumed({}), false)
    // This is the key of the day, which the process hands to its successor.
    assert.equal(await resumed({}, new TicketKeys(firstDayKey(SECRET))), true)
    assert.equal(await resumed({ ticketKey: SECRET, cert: renewed.certPem, key: renewed.keyPem }), false)
  })

  it(`a session of ${version} is not resumed where clients are asked for certificates, whatever key there is`, async (t) => {
    const { port } = await listening(t, { ticketKey: SECRET, clientCa: fixture.ca.certPem })
    const { session } = await handshake(port, version)
    assert.equal((await handshake(port, version, session)).resumed, false)
  })
}
