import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { connect } from 'node:http2'
import type { Duplex } from 'node:stream'
import { after, before, describe, it } from 'node:test'
import { writeConfiguration } from '../testing/configuration-files.ts'
import { unpaired } from './audit-pairs.ts'
import { sendBytes, statusOf } from './client.ts'
import { ask } from './http2-client.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { makeTlsSetup, secureOptions, secureSocket, type TlsSetup } from './secure.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
const SETTINGS_AND_GOAWAY = Buffer.from(`000000040000000000${'000008070000000000'.padEnd(34, '0')}`, 'hex')
const UPGRADE =
  'GET /ws HTTP/1.1\r\nHost: gateway\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n'
const SWITCHED =
  'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n'

let tls: TlsSetup
let upstream: TestUpstream

/** The protocol that ALPN agrees on, by the client's offer. Undefined: the handshake fails. */
interface Spoken {
  readonly h2: string | undefined
  readonly both: string | undefined
  readonly none: string | undefined
  /** The response, without TLS, to the preface of HTTP/2. */
  readonly plain: 'frames' | 'refusal'
}

const WITH_TLS: Spoken = { h2: 'h2', both: 'h2', none: 'none', plain: 'refusal' }
const NOBODY: Spoken = { h2: undefined, both: 'http/1.1', none: 'none', plain: 'refusal' }
const EVERYBODY: Spoken = { ...WITH_TLS, plain: 'frames' }

async function agreedOn(gateway: TestGateway, offered?: readonly string[]): Promise<string | undefined> {
  const alpn = offered === undefined ? {} : { ALPNProtocols: [...offered] }
  try {
    const socket = await secureSocket(gateway.tlsPort, { ...secureOptions(tls.ca), ...alpn })
    const { alpnProtocol } = socket
    socket.destroy()
    return alpnProtocol === false ? 'none' : String(alpnProtocol)
  } catch (error) {
    assert.match(String(error), /no application protocol/)
    return undefined
  }
}

async function spokenBy(gateway: TestGateway): Promise<Spoken> {
  // GOAWAY makes the gateway close the connection in either version.
  const first = await sendBytes(gateway.port, Buffer.concat([Buffer.from(PREFACE), SETTINGS_AND_GOAWAY]))
  return {
    h2: await agreedOn(gateway, ['h2']),
    both: await agreedOn(gateway, ['h2', 'http/1.1']),
    none: await agreedOn(gateway),
    plain: first.startsWith('HTTP/1.1 400 ') ? 'refusal' : 'frames',
  }
}

describe('HTTP/2 with clients of a gateway', () => {
  let gateway: TestGateway

  before(async () => {
    tls = await makeTlsSetup()
    upstream = await startUpstream()
    upstream.server.on('upgrade', (_req: IncomingMessage, socket: Duplex) => {
      socket.on('error', () => {})
      socket.write(SWITCHED)
      socket.pipe(socket)
    })
  })
  after(() => upstream.close())

  const config = (http2?: boolean) => ({
    upstream: upstream.url,
    routes: [{ path: '/*', auth: ['none'] }],
    ...(http2 !== undefined && { http2 }),
  })

  before(async () => {
    gateway = await startGateway({ config: config(), env: tls.env })
  })
  after(() => {
    gateway.kill()
  })

  it('is spoken by default with TLS to a client that offers it, and never without TLS', async () => {
    assert.deepEqual(await spokenBy(gateway), WITH_TLS)
    const session = connect(`https://localhost:${gateway.tlsPort}`, secureOptions(tls.ca))
    const { status } = await ask(session, { path: '/x' })
    assert.equal(status, 200)
    session.destroy()
  })

  it('offers no WebSockets (RFC 8441), but the same listener takes them over HTTP/1.1', async () => {
    const session = connect(`https://localhost:${gateway.tlsPort}`, secureOptions(tls.ca))
    const [settings] = await once(session, 'remoteSettings')
    assert.equal(settings.enableConnectProtocol, false)
    session.destroy()
    const offer = { ...secureOptions(tls.ca), ALPNProtocols: ['http/1.1'] }
    const socket = await secureSocket(gateway.tlsPort, offer)
    let text = ''
    socket.on('data', (bytes: Buffer) => {
      text += bytes.toString('latin1')
    })
    socket.write(UPGRADE)
    await until(() => (text.includes('\r\n\r\n') ? true : undefined))
    assert.equal(statusOf(text), 101)
    socket.write('through the tunnel')
    await until(() => (text.endsWith('through the tunnel') ? true : undefined))
    socket.destroy()
  })

  it('is spoken or not as gateway.json says, after a restart', async () => {
    for (const [http2, expected] of [
      [false, NOBODY],
      [true, EVERYBODY],
      [undefined, WITH_TLS],
    ] as const) {
      writeConfiguration(gateway.dir, { config: config(http2) })
      const { restarted, text } = await gateway.restart()
      assert.ok(restarted, text)
      assert.deepEqual(await spokenBy(gateway), expected)
    }
    await until(() => (unpaired(gateway.audit()).length === 0 ? true : undefined))
  })
})
