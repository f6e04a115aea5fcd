import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { Agent } from 'node:https'
import { connect as connectPlainly } from 'node:net'
import type { Duplex } from 'node:stream'
import { after, before, describe, it } from 'node:test'
import { startBeats } from './beats.ts'
import { call, sendBytes, statusOf } from './client.ts'
import { skipWithout } from './other-programs.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import {
  makeServerCertificate,
  makeTlsSetup,
  runTool,
  secureCall,
  secureOptions,
  secureSocket,
  sendSecureBytes,
  type TlsSetup,
} from './secure.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const KEY = 'dGhlIHNhbXBsZSBub25jZQ=='
const ACCEPT = 's3pPLMBiTxaQ9kYGzzhZRbK+xOo='
const UPGRADE = `GET /open/ws HTTP/1.1\r\nHost: gateway\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${KEY}\r\n\r\n`
/** The beginning of a ClientHello: record header, handshake header, version, and then nothing. */
const HALF_HELLO = Buffer.from('1603010200010001fc0303', 'hex')

describe('the HTTPS listener', () => {
  let upstream: TestUpstream
  let tls: TlsSetup
  let gateway: TestGateway

  before(async () => {
    tls = await makeTlsSetup()
    upstream = await startUpstream((req, res) => {
      if (req.url === '/open/never') return
      if (req.url === '/open/truncated') {
        res.writeHead(200, { 'content-length': '1000' })
        res.write('begun')
        setTimeout(() => res.socket?.destroy(), 20)
        return
      }
      if (req.url === '/open/slow') {
        res.write('begun')
        setTimeout(() => res.end('whole'), 1000)
        return
      }
      if (req.url === '/open/large') return void res.end('large '.repeat(1_000_000))
      if (req.url === '/open/endless') return void res.write('begun')
      req.resume().on('end', () => res.end(JSON.stringify(req.headers)))
    })
    upstream.server.on('upgrade', (_req: IncomingMessage, socket: Duplex) => {
      socket.on('error', () => {})
      socket.write(
        `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${ACCEPT}\r\n\r\n`,
      )
      socket.pipe(socket)
    })
    gateway = await begin()
  })
  after(async () => {
    await gateway.end()
    upstream.close()
  })

  const begin = (env: Record<string, string> = {}) =>
    startGateway({
      config: {
        upstream: upstream.url,
        timeouts: { requestHeadersMs: 1000, requestMs: 2000, drainMs: 6000 },
        routes: [{ path: '/open/*', auth: ['none'] }],
      },
      env: { ...tls.env, GATEWAY_LOG_LEVEL: 'debug', ...env },
    })
  const get = (path: string, agent = new Agent()) =>
    secureCall({ port: gateway.tlsPort, path, ca: tls.ca, agent })
  const options = () => secureOptions(tls.ca)
  const openFiles = () => readdirSync(`/proc/${gateway.process.child.pid}/fd`).length
  const isWell = async () => {
    assert.equal((await get('/open/x')).status, 200)
    assert.equal(gateway.process.child.exitCode, null)
    assert.deepEqual(
      gateway.process.lines.filter(({ msg }) => msg === 'a stage failed'),
      [],
    )
  }
  const sClient = (args: readonly string[], input = '') =>
    runTool('openssl', ['s_client', '-connect', `127.0.0.1:${gateway.tlsPort}`, ...args], input)

  it('tells the upstream that the request came over HTTPS, and keeps plain HTTP beside it', async () => {
    assert.equal((await get('/open/x')).json()['x-forwarded-proto'], 'https')
    assert.equal((await call(`${gateway.url}/open/x`)).json()['x-forwarded-proto'], 'http')
  })

  const accepted = [
    ['-tls1_3', '-ciphersuites', 'TLS_AES_128_GCM_SHA256'],
    ['-tls1_3', '-ciphersuites', 'TLS_AES_256_GCM_SHA384'],
    ['-tls1_3', '-ciphersuites', 'TLS_CHACHA20_POLY1305_SHA256'],
    ['-tls1_2', '-cipher', 'ECDHE-ECDSA-AES128-GCM-SHA256'],
    ['-tls1_2', '-cipher', 'ECDHE-ECDSA-AES256-GCM-SHA384'],
  ]
  for (const [version, flag, suite] of accepted as [string, string, string][]) {
    it(`speaks ${version.slice(1)} with ${suite}, without compression, with openssl s_client`, {
      skip: skipWithout('openssl'),
    }, async () => {
      const { status, output } = await sClient([version, flag, suite])
      assert.equal(status, 0, output)
      assert.match(output, new RegExp(`Cipher is ${suite}`))
      assert.match(output, /Compression: NONE/)
      if (version === '-tls1_2') assert.match(output, /Secure Renegotiation IS supported/)
    })
  }

  const refused = [
    ['-tls1', '-cipher', 'ALL:@SECLEVEL=0'],
    ['-tls1_1', '-cipher', 'ALL:@SECLEVEL=0'],
    ['-tls1_2', '-cipher', 'AES128-GCM-SHA256:AES256-GCM-SHA384:AES128-SHA:AES256-SHA256:@SECLEVEL=0'],
    [
      '-tls1_2',
      '-cipher',
      'ECDHE-ECDSA-AES128-SHA:ECDHE-ECDSA-AES256-SHA384:ECDHE-ECDSA-AES128-CCM8:@SECLEVEL=0',
    ],
    ['-tls1_2', '-cipher', 'DHE-RSA-AES128-GCM-SHA256:ADH-AES128-GCM-SHA256:PSK:@SECLEVEL=0'],
    ['-tls1_2', '-cipher', 'eNULL:aNULL:@SECLEVEL=0'],
    ['-tls1_3', '-ciphersuites', 'TLS_AES_128_CCM_SHA256'],
    ['-tls1_2', '-curves', 'secp224r1'],
  ]
  for (const [version, flag, suites] of refused as [string, string, string][]) {
    it(`does not speak ${version.slice(1)} with ${suites}`, { skip: skipWithout('openssl') }, async () => {
      const { status, output } = await sClient([version, flag, suites])
      assert.notEqual(status, 0, output)
      assert.match(output, /alert (handshake failure|protocol version)/)
    })
  }

  it('speaks the RSA suites of TLS 1.2 with an RSA certificate', {
    skip: skipWithout('openssl'),
  }, async () => {
    const rsa = await makeServerCertificate(tls.ca, { rsaBits: 2048 })
    const other = await begin({
      GATEWAY_TLS_CERT: tls.write('rsa.pem', rsa.certPem),
      GATEWAY_TLS_KEY: tls.write('rsa-key.pem', rsa.keyPem),
    })
    for (const suite of ['ECDHE-RSA-AES128-GCM-SHA256', 'ECDHE-RSA-AES256-GCM-SHA384']) {
      const args = ['s_client', '-connect', `127.0.0.1:${other.tlsPort}`, '-tls1_2', '-cipher', suite]
      assert.match((await runTool('openssl', args)).output, new RegExp(`Cipher is ${suite}`))
    }
    const weak = [
      's_client',
      '-connect',
      `127.0.0.1:${other.tlsPort}`,
      '-tls1_2',
      '-cipher',
      'AES128-GCM-SHA256',
    ]
    assert.notEqual((await runTool('openssl', weak)).status, 0)
    assert.equal(await other.end(), 0)
  })

  it('works with curl by TLS 1.2 and 1.3, and refuses a curl that has a lower version only', {
    skip: skipWithout('curl'),
  }, async () => {
    const url = `https://localhost:${gateway.tlsPort}/open/x`
    const curl = (...args: string[]) =>
      runTool('curl', [
        '-s',
        '--cacert',
        `${tls.dir}/ca.pem`,
        '-w',
        '%{http_code}',
        '-o',
        '/dev/null',
        ...args,
        url,
      ])
    for (const args of [['--tlsv1.2', '--tls-max', '1.2'], ['--tlsv1.3']]) {
      assert.deepEqual(await curl(...args), { status: 0, output: '200' })
    }
    assert.equal((await curl('--tlsv1.0', '--tls-max', '1.1', '--ciphers', 'ALL:@SECLEVEL=0')).status, 35)
  })

  it('refuses a renegotiation, and goes on serving', async () => {
    const socket = await secureSocket(gateway.tlsPort, { ...options(), maxVersion: 'TLSv1.2' })
    const refused = once(socket, 'error')
    socket.renegotiate({ rejectUnauthorized: false }, () => {})
    assert.match(String((await refused)[0]), /no.?renegotiation/i)
    await isWell()
  })

  const hostile: readonly [string, () => Promise<unknown>][] = [
    [
      'plain HTTP',
      () => sendBytes(gateway.tlsPort as number, 'GET /open/x HTTP/1.1\r\nHost: gateway\r\n\r\n'),
    ],
    ['garbage', () => sendBytes(gateway.tlsPort as number, Buffer.alloc(4096, 0x5a))],
    [
      'a record of an alert',
      () => sendBytes(gateway.tlsPort as number, Buffer.from('15030300020228', 'hex')),
    ],
    [
      'half a handshake, and a reset',
      async () => {
        const socket = connectPlainly(gateway.tlsPort as number, '127.0.0.1')
        await once(socket, 'connect')
        socket.write(HALF_HELLO, () => socket.resetAndDestroy())
        await once(socket, 'close')
      },
    ],
  ]
  for (const [what, send] of hostile) {
    it(`closes the connection of a client that sends ${what}, and records nothing`, async () => {
      const records = gateway.audit().length
      const before = openFiles()
      const response = await send()
      if (typeof response === 'string') assert.doesNotMatch(response, /HTTP\/1\.1/)
      await until(() => (openFiles() <= before ? true : undefined))
      assert.equal(gateway.audit().length, records)
      await isWell()
    })
  }

  it('closes the connection of a client that is silent after the handshake, and records nothing', async () => {
    const records = gateway.audit().length
    assert.equal(await sendSecureBytes(gateway.tlsPort, options(), ''), '')
    assert.equal(gateway.audit().length, records)
  })

  it('responds 408, with both records, to a client whose head does not come', async () => {
    const response = await sendSecureBytes(gateway.tlsPort, options(), 'GET /open/x HTTP/1.1\r\nHost: gate')
    assert.equal(statusOf(response), 408)
    const id = /x-request-id: (.+)\r\n/i.exec(response)?.[1] as string
    assert.equal((await gateway.pair(id))[1].statusCode, 408)
  })

  it('responds 400, with both records, to garbage inside of TLS', async () => {
    const response = await sendSecureBytes(gateway.tlsPort, options(), '\x16\x03\x01\x02garbage\r\n\r\n')
    assert.equal(statusOf(response), 400)
    await gateway.pair(/x-request-id: (.+)\r\n/i.exec(response)?.[1] as string)
  })

  const endings: readonly [string, (raw: ReturnType<typeof connectPlainly>) => void][] = [
    [
      'a broken record',
      (raw) => raw.write(Buffer.concat([Buffer.from('1703030020', 'hex'), Buffer.alloc(32, 7)])),
    ],
    ['a reset', (raw) => raw.resetAndDestroy()],
    ['the end of TCP without that of TLS', (raw) => raw.destroy()],
  ]
  for (const [what, end] of endings) {
    it(`records 499 when a request ends with ${what}, and goes on serving`, async () => {
      const raw = connectPlainly(gateway.tlsPort as number, '127.0.0.1')
      await once(raw, 'connect')
      raw.on('error', () => {})
      const socket = await secureSocket(gateway.tlsPort, { ...options(), socket: raw })
      const id = `ends-${what.replaceAll(' ', '-')}`
      socket.resume().write(`GET /open/never HTTP/1.1\r\nHost: gateway\r\nX-Request-ID: ${id}\r\n\r\n`)
      await until(() => gateway.audit().find(({ requestId }) => requestId === id))
      end(raw)
      assert.equal((await gateway.pair(id))[1].statusCode, 499)
      await isWell()
    })
  }

  it('breaks a response off without a close_notify, so that no client takes it for complete', {
    skip: skipWithout('openssl'),
  }, async () => {
    // In HTTP/1.0 only the end of the connection says that the response is complete.
    const head = 'GET /open/truncated HTTP/1.0\r\nHost: gateway\r\nX-Request-ID: cut-short\r\n\r\n'
    const { status, output } = await sClient(['-quiet', '-verify_quiet'], head)
    assert.match(output, /\r\n\r\nbegun/)
    assert.match(output, /errno=104/, 'reset: a close_notify would say that all has been sent')
    assert.notEqual(status, 0)
    assert.equal((await gateway.pair('cut-short'))[1].statusCode, 502)
    await isWell()
  })

  it('responds to a client that closes its half after its request', async () => {
    // A variable, because Node's types lack the option.
    const halfOpen = { ...options(), allowHalfOpen: true }
    const socket = await secureSocket(gateway.tlsPort, halfOpen)
    let response = ''
    socket.setEncoding('latin1').on('data', (text: string) => {
      response += text
    })
    socket.end('GET /open/slow HTTP/1.1\r\nHost: gateway\r\nX-Request-ID: half-closed\r\n\r\n')
    await once(socket, 'end')
    assert.match(response, /begun[\s\S]*whole/)
    assert.equal((await gateway.pair('half-closed'))[1].statusCode, 200)
  })

  it('passes large bodies unchanged, in both directions', async () => {
    const body = Buffer.alloc(900_000, 'much ')
    const response = await secureCall({
      port: gateway.tlsPort,
      path: '/open/x',
      ca: tls.ca,
      method: 'PUT',
      body,
    })
    assert.equal(response.json()['content-length'], '900000')
    const download = await get('/open/large')
    assert.equal(download.body, 'large '.repeat(1_000_000))
  })

  it('tunnels a WebSocket, both ways, until it is closed', async () => {
    const socket = await secureSocket(gateway.tlsPort, options())
    let response = ''
    socket.setEncoding('latin1').on('data', (text: string) => {
      response += text
    })
    socket.write(UPGRADE)
    await until(() => (response.includes('\r\n\r\n') ? true : undefined))
    assert.equal(statusOf(response), 101)
    assert.match(response, new RegExp(`sec-websocket-accept: ${ACCEPT.replaceAll('+', '\\+')}`, 'i'))
    assert.match(response, /strict-transport-security/i)
    const large = 'frame '.repeat(50_000)
    socket.write(large)
    await until(() => (response.endsWith(large) ? true : undefined))
    socket.end()
    await once(socket, 'close')
    await isWell()
  })

  it('has no request in flight, and a response for every request, at the end', async () => {
    await until(async () =>
      (await gateway.metric('gateway_http_requests_in_flight')) === 0 ? true : undefined,
    )
    const count = (type: string) => gateway.audit().filter((record) => record.type === type).length
    assert.equal(count('API_REQUEST'), count('API_RESPONSE'))
  })

  it('drains: finishes what it can, breaks off the rest at the deadline, waits for no handshake', async () => {
    const agent = new Agent({ keepAlive: true })
    assert.equal((await get('/open/x', agent)).status, 200)
    const half = connectPlainly(gateway.tlsPort as number, '127.0.0.1')
    half.on('error', () => {}).resume()
    half.write(HALF_HELLO)
    const websocket = await secureSocket(gateway.tlsPort, options())
    websocket.resume().write(UPGRADE)
    const slow = get('/open/slow')
    const endless = assert.rejects(get('/open/endless'))
    await until(async () =>
      (await gateway.metric('gateway_http_requests_in_flight')) === 2 ? true : undefined,
    )
    const beats = startBeats()
    const ended = gateway.end()
    assert.match((await slow).body, /begunwhole/)
    await endless
    assert.equal(await ended, 0)
    assert.ok(beats.elapsedMs() < 7500, `${beats.elapsedMs()} ms`)
    agent.destroy()
  })
})
