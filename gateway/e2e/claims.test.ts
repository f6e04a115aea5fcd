import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { sendBytes, statusOf } from './client.ts'
import { commonGateway, startGateway, type TestGateway } from './running-gateway.ts'
import { type SeenRequest, startUpstream, type TestUpstream } from './test-upstream.ts'

const CLOSE = 'Host: gateway\r\nConnection: close\r\n\r\n'

/** Fields that some service or framework believes, one name of each kind. */
const CLAIMS = [
  'Proxy',
  'X-Real-IP',
  'True-Client-IP',
  'CF-Connecting-IP',
  'X-Client-IP',
  'X-Cluster-Client-IP',
  'Fastly-Client-IP',
  'Remote-User',
  'Remote-Addr',
  'X-Remote-User',
  'X-Remote-Group',
  'X-Authenticated-User',
  'X-Authenticated-Userid',
  'X-WebAuth-User',
  'X-SSL-Client-Cert',
  'SSL-Client-Verify',
  'X-Client-Cert',
  'X-Client-Cert-Chain',
  'X-Client-Verify',
  'X-Client-DN',
  'X-Client-S-DN',
  'X-Forwarded-Client-Cert',
  'X-Forwarded-Tls-Client-Cert',
  'X-Forwarded-User',
  'X-Forwarded-Email',
  'X-Forwarded-Groups',
  'X-Forwarded-Access-Token',
  'X-Forwarded-Uri',
  'X-Forwarded-Method',
  'X-Original-URL',
  'X-Original-URI',
  'X-Original-Host',
  'X-Original-Method',
  'X-Original-Forwarded-For',
  'X-Rewrite-URL',
  'X-Revoke-Session',
  'Front-End-Https',
  'X-Auth-Subject',
  'X-Auth-Client',
  'X-Auth-Scope',
  'X-Auth-Method',
  'X-Auth-Session',
  'X-Auth-Anything',
  'Client-Cert',
  'Client-Cert-Chain',
]

const FORWARDING = [
  'Forwarded',
  'X-Forwarded-Port',
  'X-Forwarded-Prefix',
  'X-Forwarded-Server',
  'X-Forwarded-Ssl',
]

function seenIn(response: string): SeenRequest {
  return JSON.parse(response.slice(response.indexOf('\r\n\r\n') + 4)) as SeenRequest
}

describe('what a request claims', () => {
  let upstream: TestUpstream
  let plain: TestGateway
  let proxied: TestGateway
  const routes = [
    { path: '/shown', auth: ['none'], clientCert: true },
    { path: '/*', auth: ['none'] },
  ]

  before(async () => {
    upstream = await startUpstream()
    plain = await startGateway({
      config: { upstream: upstream.url, routes, allowedFieldNames: ['My_Old.Header'] },
    })
    proxied = await commonGateway({
      config: { upstream: upstream.url, routes, trustedProxies: ['127.0.0.1'], via: true },
    })
  })
  after(async () => {
    assert.equal(await plain.end(), 0)
    upstream.close()
  })

  const ask = (gateway: TestGateway, lines: string, path = '/a') =>
    sendBytes(gateway.port, `GET ${path} HTTP/1.1\r\n${lines}${CLOSE}`)
  const evil = (names: readonly string[]) => names.map((name) => `${name}: evil\r\n`).join('')

  it('about the caller, its address or the target reaches no service, in upper or lower case', async () => {
    for (const names of [CLAIMS, CLAIMS.map((name) => name.toUpperCase())]) {
      const { rawHeaders } = seenIn(await ask(plain, evil(names)))
      assert.deepEqual(
        rawHeaders.filter((_, i) => rawHeaders[i + 1] === 'evil'),
        [],
      )
    }
  })

  it('about the caller is not believed from a trusted proxy either', async () => {
    for (const path of ['/a', '/shown']) {
      const { rawHeaders } = seenIn(await ask(proxied, evil(CLAIMS), path))
      assert.deepEqual(
        rawHeaders.filter((_, i) => rawHeaders[i + 1] === 'evil'),
        [],
      )
    }
  })

  it('about how the request came is believed from a trusted proxy only', async () => {
    const lines = evil(FORWARDING)
    const kept = seenIn(await ask(proxied, lines)).rawHeaders
    assert.deepEqual(
      kept.filter((_, i) => kept[i + 1] === 'evil'),
      FORWARDING,
    )
    const { rawHeaders } = seenIn(await ask(plain, lines))
    assert.ok(!rawHeaders.includes('evil'))
  })

  it('is logged once for each route and name, X-Auth-One and X-Auth-Two as x-auth-*', async () => {
    const told = (gateway: TestGateway, header: string) =>
      gateway.process.lines.filter(
        (line) => line.msg === 'a request header is removed' && line.header === header,
      )
    const lines = `${evil(['X-Auth-One', 'X-Auth-Two', 'X-Client-DN', 'X-Forwarded-Port', 'Client-Cert', 'X-Mine'])}Connection: x-mine\r\n`
    for (const path of ['/shown', '/shown', '/once', '/once', '/twice'])
      await sendBytes(
        plain.port,
        `GET ${path} HTTP/1.1\r\n${lines}Host: gateway\r\nConnection: close\r\n\r\n`,
      )
    // These come on one connection, where the gateway reads equal fields only once.
    const again = `Host: gateway\r\nX-Userinfo: evil\r\n\r\n`
    await sendBytes(
      plain.port,
      `GET /a HTTP/1.1\r\n${again}GET /shown HTTP/1.1\r\n${again}GET /a HTTP/1.1\r\nX-Userinfo: evil\r\n${CLOSE}`,
    )
    const names = [
      'x-auth-*',
      'x-client-dn',
      'x-forwarded-port',
      'client-cert',
      'named by Connection',
      'x-userinfo',
    ]
    for (const name of names)
      assert.deepEqual(new Set(told(plain, name).map(({ route }) => route)), new Set(['/shown', '/*']), name)
    for (const name of names) assert.equal(told(plain, name).length, 2, name)
    assert.deepEqual(told(plain, 'connection'), [])
  })

  it('about its method is refused, and reaches no service', async () => {
    for (const name of ['X-HTTP-Method-Override', 'X-HTTP-Method', 'X-Method-Override', 'x_http_method']) {
      const before = upstream.seen.length
      for (const more of ['', `Connection: ${name}\r\n`]) {
        const response = await ask(plain, `${name}: DELETE\r\n${more}`)
        assert.equal(statusOf(response), 400, name)
        assert.match(response, /"code":"method_override"/)
      }
      assert.equal(upstream.seen.length, before)
    }
  })

  it('with a name that services read as another is refused, and an allowed name passes as it is', async () => {
    for (const name of [
      'X.Auth.Subject',
      'X!Auth!Subject',
      'X_Auth_Subject',
      'X-Auth_Subject',
      'Client.Cert',
      'Transfer.Encoding',
      'Content_Length',
      "It's",
      'a~b',
      'a|b',
      'My_Old-Header',
    ]) {
      const before = upstream.seen.length
      const response = await ask(plain, `${name}: chunked\r\n`)
      assert.equal(statusOf(response), 400, name)
      assert.match(response, /"code":"invalid_header"/)
      assert.equal(upstream.seen.length, before)
    }
    const { rawHeaders } = seenIn(await ask(plain, 'my_old.HEADER: kept\r\n'))
    assert.equal(rawHeaders[rawHeaders.indexOf('my_old.HEADER') + 1], 'kept')
  })

  it('with an odd name closes the connection: what comes behind it is not read as a request', async () => {
    const response = await sendBytes(
      plain.port,
      `POST /a HTTP/1.1\r\nHost: gateway\r\nTransfer.Encoding: chunked\r\nContent-Length: 44\r\n\r\nGET /behind HTTP/1.1\r\nHost: gateway\r\n\r\n`,
    )
    assert.equal(statusOf(response), 400)
    assert.ok(!upstream.seen.some(({ url }) => url === '/behind'))
  })

  it('does not include ordinary fields, which pass', async () => {
    const lines = 'X-Client-Id: app\r\nX-Forward: y\r\nCookie: a=b\r\nX-User: u\r\nOriginal-Url: o\r\n'
    const { headers } = seenIn(await ask(plain, lines))
    assert.deepEqual(
      [
        headers['x-client-id'],
        headers['x-forward'],
        headers.cookie,
        headers['x-user'],
        headers['original-url'],
      ],
      ['app', 'y', 'a=b', 'u', 'o'],
    )
  })

  it('in Via is passed on; the gateway adds itself only where it is told to', async () => {
    assert.equal(seenIn(await ask(plain, '')).headers.via, undefined)
    assert.equal(seenIn(await ask(plain, 'Via: 1.0 a\r\nVIA: 1.1 b\r\n')).headers.via, '1.0 a, 1.1 b')
    const lines = 'Via: 1.0 a\r\nVIA: 1.1 b\r\n'
    assert.equal(seenIn(await ask(proxied, lines)).headers.via, '1.0 a, 1.1 b, 1.1 countersign')
    const old = await sendBytes(proxied.port, 'GET /a HTTP/1.0\r\nHost: gateway\r\n\r\n')
    assert.equal(seenIn(old).headers.via, '1.0 countersign')
  })
})

describe('a proxy that passes client certificates on', () => {
  it('has one well-formed Client-Cert forwarded, and only on routes that want it', async () => {
    const upstream = await startUpstream()
    const routes = [
      { path: '/shown', auth: ['none'], clientCert: true },
      { path: '/*', auth: ['none'] },
    ]
    const config = { upstream: upstream.url, routes }
    const gateway = await commonGateway({ config: { ...config, clientCertProxies: ['127.0.0.0/8'] } })
    const shown = async (path: string, lines: string) =>
      seenIn(await sendBytes(gateway.port, `GET ${path} HTTP/1.1\r\n${lines}${CLOSE}`)).headers['client-cert']
    const good = 'Client-Cert: :Zm9v:\r\n'
    assert.equal(await shown('/shown', good), ':Zm9v:')
    assert.equal(await shown('/a', good), undefined)
    assert.equal(await shown('/shown', good + good), undefined)
    assert.equal(await shown('/shown', `${good}Connection: client-cert\r\n`), undefined)
    for (const value of ['', '::', 'Zm9v', ':Zm9:', ':Zm9v:, :Zm9v:', ':Zm9v:;a'])
      assert.equal(await shown('/shown', `Client-Cert: ${value}\r\n`), undefined, value)
    await gateway.become({
      config: { ...config, clientCertProxies: ['192.0.2.1'], trustedProxies: ['127.0.0.1'] },
    })
    assert.equal(await shown('/shown', good), undefined)
    upstream.close()
  })
})
