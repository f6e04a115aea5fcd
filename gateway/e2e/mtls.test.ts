import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { Agent } from 'node:https'
import { after, before, describe, it } from 'node:test'
import { countersign } from '../cli/program.test-support.ts'
import {
  type Authority,
  CLIENT_AUTH,
  type Issued,
  makeAuthority,
  makeCertificate,
  makeRevocationList,
  SERVER_AUTH,
} from '../tls/demo/throw-away-ca.ts'
import { startBeats } from './beats.ts'
import { call, type ReceivedResponse } from './client.ts'
import { skipWithout } from './other-programs.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import {
  makeServerCertificate,
  makeTlsSetup,
  runTool,
  type SecureCall,
  secureCall,
  secureOptions,
  secureSocket,
  type TlsSetup,
} from './secure.ts'
import { type SeenRequest, startUpstream, type TestUpstream } from './test-upstream.ts'

const MANDATORY = [
  'strict-transport-security',
  'x-content-type-options',
  'x-frame-options',
  'x-xss-protection',
  'cache-control',
  'x-request-id',
]
const SAN_URI = { type: 'url', value: 'urn:test:by-uri' } as const
const SAN_DNS = { type: 'dns', value: 'Client.Bank-B.example' } as const

function thumbprint({ certificate }: Issued, encoding: 'hex' | 'base64url'): string {
  return createHash('sha256').update(Buffer.from(certificate.rawData)).digest(encoding)
}

describe('mutual TLS', () => {
  let upstream: TestUpstream
  /** Its responses never end. */
  let streams: TestUpstream
  let tls: TlsSetup
  let gateway: TestGateway
  let pinned: Issued
  let byUri: Issued
  let byDns: Issued
  let bySubject: Issued
  let departing: Issued
  let stranger: Issued

  const clients = () => [
    {
      id: 'pinned',
      scopes: ['payments', 'accounts:read'],
      mtls: { thumbprint: thumbprint(pinned, 'hex') },
    },
    { id: 'by-uri', scopes: ['accounts:read'], mtls: { sanUri: SAN_URI.value } },
    { id: 'by-dns', scopes: ['accounts:read'], mtls: { sanDns: SAN_DNS.value.toLowerCase() } },
    { id: 'by-subject', scopes: ['accounts:read'], mtls: { subject: 'CN=by-subject, O=Bank B' } },
    { id: 'departing', scopes: [], mtls: { subject: 'CN=departing' } },
  ]

  before(async () => {
    upstream = await startUpstream()
    streams = await startUpstream((_req, res) => {
      const events = setInterval(() => res.write('event '), 100)
      res.on('close', () => clearInterval(events))
    })
    tls = await makeTlsSetup()
    const client = (subject: string, san: SecureSan = []) => tls.client({ subject, san })
    pinned = await client('CN=pinned')
    // This certificate has the names of three clients, and the most exact name counts.
    byUri = await client('CN=by-subject,O=Bank B', [SAN_DNS, SAN_URI])
    byDns = await client('CN=by-dns', [{ type: 'dns', value: 'other.example' }, SAN_DNS])
    bySubject = await client('CN=by-subject,O=Bank B')
    departing = await client('CN=departing')
    stranger = await client('CN=stranger', [{ type: 'dns', value: 'bank-b.example' }])
    gateway = await startGateway({
      config: {
        upstream: upstream.url,
        upstreams: { streams: { targets: [streams.url] } },
        routes: [
          { path: '/machine/*', auth: ['mtls'] },
          { path: '/shown/*', auth: ['mtls', 'bearer'], clientCert: true },
          { path: '/open/*', auth: ['none'], clientCert: true },
          { path: '/both', auth: ['bearer', 'mtls'] },
          { path: '/token', auth: ['bearer'] },
          { path: '/events', auth: ['bearer'], upstream: 'streams' },
          { path: '/scoped', auth: ['mtls'], scopes: ['payments'] },
        ],
      },
      clients: clients(),
      env: { ...tls.env, GATEWAY_LOG_LEVEL: 'debug' },
    })
  })
  after(async () => {
    assert.deepEqual(
      gateway.process.lines.filter(({ msg }) => msg === 'a stage failed'),
      [],
    )
    assert.equal(await gateway.end(), 0)
    upstream.close()
    streams.close()
  })

  type SecureSan = NonNullable<Parameters<TlsSetup['client']>[0]['san']>
  const ask = (path: string, certificate?: Issued, more: Partial<SecureCall> = {}) =>
    secureCall({ port: gateway.tlsPort, path, ca: tls.ca, certificate, ...more })
  const bearer = async (claims: object = {}, scheme = 'Bearer') => ({
    authorization: `${scheme} ${await upstream.issuer.token({ ...claims })}`,
  })

  /** Asserts a refusal by the response, the trail and the metrics. */
  async function refuses(
    asking: () => Promise<ReceivedResponse>,
    expected: {
      readonly status?: number
      readonly code: string
      readonly sample?: string
      readonly challenge?: RegExp
    },
  ): Promise<ReceivedResponse> {
    const { status = 401, code, sample } = expected
    const samples = [`gateway_refusals_total{code="${code}"}`, ...(sample ? [sample] : [])]
    const counted = () => Promise.all(samples.map((one) => gateway.metric(one)))
    const before = await counted()
    const seen = upstream.seen.length
    const answer = await asking()
    assert.equal(answer.status, status, answer.body)
    const problem = answer.json()
    assert.equal(problem.code, code)
    for (const name of MANDATORY) {
      const names = answer.rawHeaders.filter((text, i) => i % 2 === 0 && text.toLowerCase() === name)
      assert.equal(names.length, 1, name)
    }
    assert.match(
      String(answer.headers['www-authenticate']),
      expected.challenge ?? /^Certificate realm="api"$/,
    )
    const id = answer.headers['x-request-id'] as string
    const [request, response] = await gateway.pair(id)
    assert.equal(request.clientId, undefined)
    assert.equal(response.statusCode, status)
    assert.deepEqual(
      await counted(),
      before.map((count) => count + 1),
      samples.join(),
    )
    assert.equal(upstream.seen.length, seen)
    return answer
  }
  /** Options of a client that accepts a weak key of its own. */
  const careless = () => ({ agent: new Agent({ ciphers: 'DEFAULT@SECLEVEL=0' }) })
  const UNTRUSTED = 'gateway_auth_decisions_total{method="mtls",outcome="untrusted"}'
  const UNKNOWN = 'gateway_auth_decisions_total{method="mtls",outcome="unknown_client"}'

  const known: readonly [string, () => Issued, string][] = [
    ['thumbprint', () => pinned, 'pinned'],
    ['URI', () => byUri, 'by-uri'],
    ['DNS name, in whatever case', () => byDns, 'by-dns'],
    ['subject', () => bySubject, 'by-subject'],
  ]
  for (const [by, certificate, id] of known) {
    for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
      it(`knows a client by the ${by} of its certificate over ${version}, upstream and in the trail`, async () => {
        const agent = new Agent({ minVersion: version, maxVersion: version })
        const before = await gateway.metric('gateway_auth_decisions_total{method="mtls",outcome="accepted"}')
        const answer = await ask('/machine/x', certificate(), { agent })
        assert.equal(answer.status, 200, answer.body)
        const { headers } = answer.json<SeenRequest>()
        assert.equal(headers['x-auth-client'], id)
        assert.equal(headers['x-auth-method'], 'mtls')
        assert.equal(headers['x-auth-subject'], undefined)
        assert.equal(headers['client-cert'], undefined)
        assert.equal(headers['x-forwarded-proto'], 'https')
        for (const record of await gateway.pair(answer.headers['x-request-id'] as string)) {
          assert.equal(record.clientId, id)
          assert.equal(record.userId, undefined)
        }
        const sample = 'gateway_auth_decisions_total{method="mtls",outcome="accepted"}'
        assert.equal(await gateway.metric(sample), before + 1)
      })
    }
  }

  it('takes the certificate that curl shows', { skip: skipWithout('curl') }, async () => {
    const cert = tls.write('pinned.pem', pinned.certPem)
    const key = tls.write('pinned-key.pem', pinned.keyPem)
    const url = `https://localhost:${gateway.tlsPort}/scoped`
    const curl = (...args: string[]) => runTool('curl', ['-s', '--cacert', `${tls.dir}/ca.pem`, ...args, url])
    const { status, output } = await curl('--cert', cert, '--key', key)
    assert.equal(status, 0)
    assert.equal(JSON.parse(output).headers['x-auth-client'], 'pinned')
    const refused = /^HTTP\/(\S+) 401 [\s\S]*"code":"missing_credentials"/
    assert.equal(refused.exec((await curl('-i')).output)?.[1], '2')
    assert.equal(refused.exec((await curl('-i', '--http1.1')).output)?.[1], '1.1')
  })

  it('asks for the scopes of the route', async () => {
    const answer = await ask('/scoped', byUri)
    assert.equal(answer.status, 403)
    assert.equal(answer.json().code, 'insufficient_scope')
    const [request] = await gateway.pair(answer.headers['x-request-id'] as string)
    assert.equal(request.clientId, 'by-uri')
  })

  describe('refuses with a response, not with a broken handshake,', () => {
    let foreign: Authority
    before(async () => {
      foreign = await makeAuthority({ subject: 'CN=Root,O=Test' })
      await revoke(departing)
    })

    const bad: readonly [string, () => Promise<Issued>, RegExp, string?][] = [
      ['that has expired', () => issue({ fromDays: -3, untilDays: -1 }), /expired/],
      ['that is not valid yet', () => issue({ fromDays: 1 }), /not valid yet/],
      ['that signs itself', () => issue({ issuer: undefined }), /signed by itself/],
      ['of another authority of the same name', () => issue({ issuer: foreign }), /./],
      ['that is for servers', () => issue({ extendedKeyUsages: [SERVER_AUTH] }), /not for clients/],
      ['that was revoked', async () => departing, /revoked/],
      ['with an unknown critical extension', () => issue({ criticalOids: ['1.2.3.4.5'] }), /./],
      ['with an RSA key of 1024 bits', () => issue({ rsaBits: 1024 }), /./],
      ['issued by a client', async () => issue({ issuer: pinned as Authority }), /./],
      [
        'of no known client',
        async () => stranger,
        /no client has subject "CN=stranger", thumbprint [0-9a-f]{64}/,
        UNKNOWN,
      ],
    ]
    /** Issues a certificate with the names of known clients. */
    const issue = (wish: object) =>
      makeCertificate({
        subject: 'CN=by-subject,O=Bank B',
        issuer: tls.ca,
        san: [SAN_URI, SAN_DNS],
        extendedKeyUsages: [CLIENT_AUTH],
        ...wish,
      })
    for (const [what, certificate, cause, sample = UNTRUSTED] of bad) {
      it(`a certificate ${what}, and says why only in the log`, async () => {
        const shown = await certificate()
        const answer = await refuses(() => ask('/machine/x', shown, careless()), {
          code: 'invalid_certificate',
          sample,
        })
        assert.equal(answer.json().detail, 'The client certificate is not accepted.')
        const id = answer.headers['x-request-id']
        const line = await gateway.process.line(({ requestId, msg }) => requestId === id && msg === 'refused')
        assert.match(String(line.cause), cause)
        // The certificate also fails where a bearer token would be accepted.
        await refuses(() => ask('/both', shown, careless()), { code: 'invalid_certificate', sample })
        // On a public route it counts for nobody, and the service does not see it.
        const open = await ask('/open/x', shown, careless())
        assert.equal(open.status, 200)
        if (sample === UNTRUSTED) assert.equal(open.json<SeenRequest>().headers['client-cert'], undefined)
      })
    }

    it('no certificate at all', async () => {
      const sample = 'gateway_auth_decisions_total{method="mtls",outcome="missing"}'
      await refuses(() => ask('/machine/x'), { code: 'missing_credentials', sample })
    })

    it('a certificate in headers over plain HTTP', async () => {
      const claim = `:${Buffer.from(pinned.certificate.rawData).toString('base64')}:`
      const headers = {
        'client-cert': claim,
        'x-forwarded-client-cert': claim,
        'x-auth-client': 'pinned',
        'x-auth-method': 'mtls',
      }
      await refuses(() => call(`${gateway.url}/machine/x`, { headers }), { code: 'missing_credentials' })
    })
  })

  describe('beside bearer tokens', () => {
    it('takes the token of a client without a certificate', async () => {
      const { headers } = (await ask('/both', undefined, { headers: await bearer() })).json<SeenRequest>()
      assert.deepEqual([headers['x-auth-method'], headers['x-auth-subject']], ['bearer', 'user-1'])
      const [first] = ((await ask('/both')).headers['www-authenticate'] as string).split(',')
      assert.equal(first, 'Bearer realm="api"')
    })

    it('takes the certificate of a client without a token, and the token of a client with both', async () => {
      const machine = (await ask('/both', pinned)).json<SeenRequest>().headers
      assert.deepEqual([machine['x-auth-method'], machine['x-auth-client']], ['mtls', 'pinned'])
      const user = (await ask('/both', pinned, { headers: await bearer() })).json<SeenRequest>().headers
      assert.deepEqual([user['x-auth-method'], user['x-auth-subject']], ['bearer', 'user-1'])
    })

    it('takes a certificate from an address that has guessed tokens, but no new token', async () => {
      const status = async (certificate?: Issued, headers: Record<string, string> = {}) => {
        const agent = new Agent({ localAddress: '127.0.0.77' })
        return (await ask('/both', certificate, { headers, agent })).status
      }
      const known = await bearer()
      assert.equal(await status(undefined, known), 200)
      for (let guess = 0; guess < 20; guess++)
        assert.equal(await status(undefined, { authorization: `Bearer x.y.${guess}` }), 401)
      assert.equal(await status(undefined, await bearer()), 429)
      assert.equal(await status(pinned, await bearer()), 429)
      assert.equal(await status(pinned), 200)
      assert.equal(await status(undefined, known), 200)
    })

    it('refuses a bad token beside a good certificate', async () => {
      const headers = { authorization: 'Bearer x.y.z' }
      await refuses(() => ask('/both', pinned, { headers }), {
        code: 'invalid_token',
        challenge: /error="invalid_token"/,
      })
    })
  })

  describe('binds a token to a certificate (RFC 8705)', () => {
    const bound = () => bearer({ cnf: { 'x5t#S256': thumbprint(pinned, 'base64url') } })

    it('that is accepted over its connection', async () => {
      for (const path of ['/token', '/both']) {
        const answer = await ask(path, pinned, { headers: await bound() })
        assert.equal(answer.status, 200, answer.body)
        assert.equal(answer.json<SeenRequest>().headers['x-auth-subject'], 'user-1')
      }
    })

    it('also when no client is known by the certificate', async () => {
      const headers = await bearer({ cnf: { 'x5t#S256': thumbprint(stranger, 'base64url') } })
      assert.equal((await ask('/token', stranger, { headers })).status, 200)
    })

    const elsewhere: readonly [string, (headers: Record<string, string>) => Promise<ReceivedResponse>][] = [
      ['over plain HTTP', (headers) => call(`${gateway.url}/token`, { headers })],
      ['without a certificate', (headers) => ask('/token', undefined, { headers })],
      ['with the good certificate of another', (headers) => ask('/token', byUri, { headers })],
      ['with a revoked certificate', (headers) => ask('/token', departing, { headers })],
      [
        'with the certificate in a header',
        (headers) => {
          const der = Buffer.from(pinned.certificate.rawData).toString('base64')
          return ask('/token', undefined, { headers: { ...headers, 'client-cert': `:${der}:` } })
        },
      ],
      ['where the certificate alone would do', (headers) => ask('/both', byUri, { headers })],
    ]
    for (const [where, asking] of elsewhere) {
      it(`that is refused ${where}`, async () => {
        const headers = await bound()
        await refuses(() => asking(headers), {
          code: 'invalid_token',
          challenge: /^Bearer realm="api", error="invalid_token"/,
          sample: 'gateway_auth_decisions_total{method="bearer",outcome="invalid_token"}',
        })
      })
    }

    it('that is refused with its own certificate after its revocation', async () => {
      const headers = await bearer({ cnf: { 'x5t#S256': thumbprint(departing, 'base64url') } })
      await refuses(() => ask('/token', departing, { headers }), {
        code: 'invalid_token',
        challenge: /invalid_token/,
      })
    })
  })

  describe('shows the certificate upstream (RFC 9440)', () => {
    const der = () => `:${Buffer.from(pinned.certificate.rawData).toString('base64')}:`
    const claims = {
      'Client-Cert': ':Zm9yZ2Vk:',
      'client-cert-chain': ':Zm9yZ2Vk:',
      'X-Forwarded-Client-Cert': 'forged',
    }

    it('where the route asks for it, and only there', async () => {
      assert.equal((await ask('/shown/x', pinned)).json<SeenRequest>().headers['client-cert'], der())
      assert.equal((await ask('/open/x', pinned)).json<SeenRequest>().headers['client-cert'], der())
      assert.equal((await ask('/open/x')).json<SeenRequest>().headers['client-cert'], undefined)
      assert.equal((await ask('/machine/x', pinned)).json<SeenRequest>().headers['client-cert'], undefined)
    })

    it('once, and never a certificate that the request claims in a header', async () => {
      const nominated = { ...claims, Connection: 'close, client-cert' }
      for (const [path, expected] of [
        ['/shown/x', der()],
        ['/machine/x', undefined],
      ] as const) {
        const { rawHeaders } = (await ask(path, pinned, { headers: nominated })).json<SeenRequest>()
        const values = rawHeaders.filter(
          (_, i) => i % 2 === 1 && /client-cert/i.test(rawHeaders[i - 1] as string),
        )
        assert.deepEqual(values, expected === undefined ? [] : [expected])
      }
      for (const answer of [
        await ask('/open/x', undefined, { headers: claims }),
        await call(`${gateway.url}/open/x`, { headers: claims }),
      ]) {
        assert.ok(!answer.body.includes('Zm9yZ2Vk') && !answer.body.includes('forged'), answer.body)
      }
    })
  })

  describe('has its files reloaded', () => {
    const reloaded = 'gateway_config_last_reload_successful{file="tls"}'
    const reloads = 'gateway_config_reloads_total{file="tls",result="success"}'
    const changes = () => gateway.audit().filter(({ type }) => type === 'CONFIG_CHANGE')

    async function serverThumbprint(): Promise<string> {
      const socket = await secureSocket(gateway.tlsPort, secureOptions(tls.ca))
      const { raw } = socket.getPeerCertificate()
      socket.destroy()
      return createHash('sha256').update(raw).digest('hex')
    }

    it('for a new certificate and key, without a connection dropped', async () => {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 })
      await ask('/machine/x', pinned, { agent })
      const expiry = () => gateway.metric('gateway_tls_certificate_expiry_timestamp_seconds')
      assert.equal(await expiry(), Math.floor(tls.server.certificate.notAfter.getTime() / 1000))
      const next = await makeServerCertificate(tls.ca, { untilDays: 60 })
      const count = await gateway.metric(reloads)
      const records = changes().length
      // A tool that renews files writes them one after the other.
      tls.write('server.pem', next.certPem)
      const beats = startBeats()
      tls.write('server-key.pem', next.keyPem)
      await until(async () => ((await serverThumbprint()) === thumbprint(next, 'hex') ? true : undefined))
      assert.ok(beats.elapsedMs() < 1500)
      assert.equal(await gateway.metric(reloads), count + 1)
      assert.equal(await expiry(), Math.floor(next.certificate.notAfter.getTime() / 1000))
      const req = await ask('/machine/x', pinned, { agent })
      assert.equal(req.status, 200)
      assert.equal(Object.values(agent.freeSockets).flat().length, 1)
      agent.destroy()
      const record = changes().at(-1)
      assert.equal(changes().length, records + 1)
      assert.match(String(record?.file), /server\.pem$/)
      assert.match(JSON.stringify(record?.before), new RegExp(thumbprint(tls.server, 'hex')))
      assert.match(JSON.stringify(record?.after), new RegExp(thumbprint(next, 'hex')))
      assert.doesNotMatch(JSON.stringify(record), /PRIVATE|BEGIN/)
    })

    const faulty: readonly [string, string, () => string][] = [
      ['a malformed certificate', 'server.pem', () => 'nothing'],
      ['a certificate of another key', 'server.pem', () => stranger.certPem],
      ['half a key', 'server-key.pem', () => '-----BEGIN PRIVATE KEY-----\nMIGH'],
      ['a certificate of no authority', 'ca.pem', () => stranger.certPem],
      ['an empty revocation list', 'crl.pem', () => ''],
    ]
    for (const [what, name, text] of faulty) {
      it(`but not for ${what}: the last good files stay, and log and metric say so`, async () => {
        const good = await serverThumbprint()
        const records = changes().length
        const saved = readFileSync(`${tls.dir}/${name}`, 'utf8')
        const lines = gateway.process.lines.length
        const told = () => gateway.process.lines.slice(lines).find(({ level }) => level === 50)
        try {
          tls.write(name, text())
          await until(async () => ((await gateway.metric(reloaded)) === 0 ? true : undefined))
          const line = await until(told)
          assert.equal(line.msg, 'the last good certificates stay in force')
          assert.match(String(line.faults), new RegExp(`/${name.replace('.', '\\.')}`))
          assert.doesNotMatch(JSON.stringify(line), /MIGH/)
          assert.equal(await serverThumbprint(), good)
          assert.equal((await ask('/machine/x', pinned)).status, 200)
        } finally {
          tls.write(name, saved)
        }
        await until(async () => ((await gateway.metric(reloaded)) === 1 ? true : undefined))
        assert.equal(changes().length, records)
      })
    }

    it('so that a client revoked meanwhile is refused at its next request on an open connection', async () => {
      const leaving = await tls.client({ subject: 'CN=by-subject,O=Bank B' })
      const agent = new Agent({ keepAlive: true, maxSockets: 1 })
      const staying = new Agent({ keepAlive: true, maxSockets: 1 })
      assert.equal((await ask('/machine/x', leaving, { agent })).status, 200)
      assert.equal((await ask('/machine/x', pinned, { agent: staying })).status, 200)
      const [socket] = Object.values(agent.freeSockets).flat()
      await revoke(departing, leaving)
      assert.ok(socket)
      const closed = once(socket, 'close')
      const answer = await refuses(() => ask('/machine/x', leaving, { agent }), {
        code: 'invalid_certificate',
        sample: UNTRUSTED,
      })
      assert.deepEqual([answer.status, answer.headers.connection], [401, 'close'])
      await closed
      assert.equal((await ask('/machine/x', pinned, { agent: staying })).status, 200)
      await refuses(() => ask('/machine/x', leaving), { code: 'invalid_certificate' })
      agent.destroy()
      staying.destroy()
    })

    it('so that a stream by a bound token ends when its certificate is revoked', async () => {
      const leaving = await tls.client({ subject: 'CN=leaving' })
      const { authorization } = await bearer({ cnf: { 'x5t#S256': thumbprint(leaving, 'base64url') } })
      const socket = await secureSocket(gateway.tlsPort, secureOptions(tls.ca, leaving))
      socket.setEncoding('latin1')
      socket.write(
        `GET /events HTTP/1.1\r\nHost: gateway\r\nX-Request-ID: bound-stream\r\nAuthorization: ${authorization}\r\n\r\n`,
      )
      let received = ''
      socket.on('data', (text: string) => {
        received += text
      })
      await until(() => (received.includes('event ') ? true : undefined))
      await revoke(departing, leaving)
      await until(() => (socket.destroyed ? true : undefined))
      assert.equal((await gateway.pair('bound-stream'))[1].statusCode, 401)
    })

    it('so that a client refused by an expired list passes, on a new connection, with the next list', async () => {
      await letListExpire()
      const agent = new Agent({ keepAlive: true, maxSockets: 1 })
      const refused = await ask('/machine/x', pinned, { agent })
      assert.deepEqual([refused.status, refused.headers.connection], [401, 'close'])
      await revoke()
      assert.equal((await ask('/machine/x', pinned, { agent })).status, 200)
      agent.destroy()
    })

    it('so that bound tokens refused by an expired list do not count as guesses, and pass with the next list', async () => {
      await letListExpire()
      const agent = new Agent({ keepAlive: true, maxSockets: 1 })
      const headers = await bearer({ cnf: { 'x5t#S256': thumbprint(pinned, 'base64url') } })
      // More refusals than an address may have in a minute, if they counted as guesses.
      for (let count = 0; count < 25; count++) {
        const refused = await ask('/token', pinned, { agent, headers })
        assert.deepEqual([refused.status, refused.headers.connection], [401, 'close'])
        assert.equal(refused.json().code, 'invalid_token')
      }
      await gateway.process.line(({ cause }) =>
        /x5t#S256: .*the revocation list of its issuer is out of date$/.test(String(cause)),
      )
      await revoke()
      assert.equal((await ask('/token', pinned, { agent, headers })).status, 200)
      agent.destroy()
    })

    it('so that the service sees a certificate again when an expired list is replaced', async () => {
      await letListExpire()
      const agent = new Agent({ keepAlive: true, maxSockets: 1 })
      const unseen = await ask('/open/x', pinned, { agent })
      assert.deepEqual([unseen.status, unseen.headers.connection], [200, 'close'])
      assert.equal(unseen.json<SeenRequest>().headers['client-cert'], undefined)
      await revoke()
      const seen = await ask('/open/x', pinned, { agent })
      assert.match(String(seen.json<SeenRequest>().headers['client-cert']), /^:/)
      agent.destroy()
    })

    it('so that a client is accepted again, on a new connection, when its authority is put back', async () => {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 })
      assert.equal((await ask('/machine/x', pinned, { agent })).status, 200)
      const other = await makeAuthority({ subject: 'CN=Other,O=Test' })
      const lists = (await makeRevocationList(tls.ca)) + (await makeRevocationList(other))
      await reload('crl.pem', lists)
      await reload('ca.pem', other.certPem)
      const refused = await ask('/machine/x', pinned, { agent })
      assert.deepEqual([refused.status, refused.headers.connection], [401, 'close'])
      await reload('ca.pem', tls.ca.certPem)
      assert.equal((await ask('/machine/x', pinned, { agent })).status, 200)
      agent.destroy()
    })

    it('so that clients of a new authority are accepted, and clients of a removed one are refused', async () => {
      const nextCa = await makeAuthority({ subject: 'CN=Next root,O=Test' })
      const newcomer = await makeCertificate({
        subject: 'CN=by-subject,O=Bank B',
        issuer: nextCa,
        extendedKeyUsages: [CLIENT_AUTH],
      })
      await refuses(() => ask('/machine/x', newcomer), { code: 'invalid_certificate' })
      const issuer = ['CN=Root,O=Test', 'CN=Next root,O=Test']
      const named = clients().map(({ mtls, ...client }) => ({ ...client, mtls: { ...mtls, issuer } }))
      writeFileSync(gateway.clientsFile, JSON.stringify({ clients: named }))
      await until(() => gateway.process.lines.find(({ msg }) => msg === 'clients are in force'))
      const keepAlive = () => new Agent({ keepAlive: true, maxSockets: 1 })
      const [agent, newAgent, bareAgent] = [keepAlive(), keepAlive(), keepAlive()]
      const early = await ask('/machine/x', newcomer, { agent: newAgent })
      // Many clients show a certificate only if its authority is among those that the server names.
      const bare = await ask('/machine/x', undefined, { agent: bareAgent })
      for (const { status, headers } of [early, bare])
        assert.deepEqual([status, headers.connection], [401, 'keep-alive'])
      const [list, nextList] = [await makeRevocationList(tls.ca), await makeRevocationList(nextCa)]
      tls.write('ca.pem', tls.ca.certPem + nextCa.certPem)
      tls.write('crl.pem', list + nextList)
      await comesTo(newcomer, 200)
      for (const [certificate, itsAgent] of [
        [newcomer, newAgent],
        [undefined, bareAgent],
      ] as const) {
        const { status, headers } = await ask('/machine/x', certificate, { agent: itsAgent })
        assert.deepEqual([status, headers.connection], [401, 'close'])
        itsAgent.destroy()
      }
      assert.equal((await ask('/machine/x', pinned, { agent })).status, 200)
      tls.write('ca.pem', nextCa.certPem)
      tls.write('crl.pem', nextList)
      await comesTo(pinned, 401)
      assert.equal((await ask('/machine/x', newcomer)).status, 200)
      await refuses(() => ask('/machine/x', pinned, { agent }), { code: 'invalid_certificate' })
      agent.destroy()
    })
  })

  /** Waits until new connections with this certificate get this status. */
  async function comesTo(certificate: Issued, status: number): Promise<void> {
    await until(async () => ((await ask('/machine/x', certificate)).status === status ? true : undefined))
  }

  /** Puts a list in force that revokes these. */
  async function revoke(...revoked: Issued[]): Promise<void> {
    await reload('crl.pem', await makeRevocationList(tls.ca, { revoked }))
  }

  /** Puts a list in force that expires in seconds, and waits for that. An expired list would not come into force. */
  async function letListExpire(): Promise<void> {
    for (let seconds = 3; ; seconds *= 2) {
      const count = gateway.process.lines.length
      tls.write('crl.pem', await makeRevocationList(tls.ca, { untilDays: seconds / 86_400 }))
      const { level } = await until(() =>
        gateway.process.lines.slice(count).find(({ msg }) => /certificates.* in force$/.test(String(msg))),
      )
      // A line of another level says that the list had expired before it was read.
      if (level === 30) return comesTo(pinned, 401)
    }
  }

  /** Writes a file, and waits until it is in force. */
  async function reload(name: string, text: string): Promise<void> {
    const count = gateway.process.lines.length
    const file = tls.write(name, text)
    const { files } = await until(() =>
      gateway.process.lines.slice(count).find(({ msg }) => msg === 'certificates are in force'),
    )
    assert.ok(Array.isArray(files) && files.includes(file), `the log does not name ${name}`)
  }
})

describe('the check of the configuration', () => {
  let tls: TlsSetup
  before(async () => {
    tls = await makeTlsSetup()
  })

  const validate = async (env: Readonly<Record<string, string>>) => {
    const { status, stdout, stderr } = await countersign(['validate'], { ...process.env, ...env })
    return { status, lines: (stdout + stderr).replaceAll(/:\d+:\d+: /g, ': ').split('\n') }
  }

  it('names the certificate and the clients that are good', async () => {
    const clients = JSON.stringify({ clients: [{ id: 'a', mtls: { sanDns: 'a.example' } }] })
    const GATEWAY_CLIENTS = tls.write('clients.json', clients)
    const { status, lines } = await validate({ ...tls.env, GATEWAY_CLIENTS })
    assert.equal(status, 0, lines.join('\n'))
    const until = tls.server.certificate.notAfter.toISOString()
    assert.ok(lines.includes(`${tls.env.GATEWAY_TLS_CERT}: OK, good until ${until}`), lines.join('\n'))
    assert.ok(lines.includes(`${GATEWAY_CLIENTS}: OK, clients: 1`))
  })

  it('reports expired files as faults, each with its place; a gateway starts with them nevertheless', async () => {
    const days = { fromDays: -3, untilDays: -1 }
    const late = await makeServerCertificate(tls.ca, days)
    const old = await makeAuthority({ subject: 'CN=Old', ...days })
    const env = {
      ...tls.env,
      GATEWAY_TLS_CERT: tls.write('late.pem', late.certPem),
      GATEWAY_TLS_KEY: tls.write('late-key.pem', late.keyPem),
      GATEWAY_TLS_CLIENT_CA: tls.write('two.pem', tls.ca.certPem + old.certPem),
      GATEWAY_TLS_CLIENT_CRL: tls.write(
        'late-crl.pem',
        (await makeRevocationList(tls.ca, days)) + (await makeRevocationList(old)),
      ),
    }
    const { status, lines } = await validate(env)
    const until = late.certificate.notAfter.toISOString()
    const faults = lines.filter((line) => /: (certificate|list) \d: /.test(line))
    assert.equal(status, 1)
    assert.equal(faults[0], `${env.GATEWAY_TLS_CERT}: certificate 1: expired at ${until}`)
    assert.match(
      faults[1] ?? '',
      /late-crl\.pem: list 1: has been out of date since \S+: every client of its authority is refused/,
    )
    assert.equal(faults.length, 2)
    // Only a warning, because the file has another, valid authority.
    assert.match(lines.join('\n'), /^warning: .+two\.pem: certificate 2 expired at \S+$/m)
    assert.doesNotMatch(lines.join('\n'), /late\.pem: OK|warning: \S+late/)
    const gateway = await startGateway({ config: { routes: [{ path: '/*', auth: ['none'] }] }, env })
    const warnings = gateway.process.lines.filter(
      ({ msg, level }) => msg === 'check the TLS files' && level === 40,
    )
    assert.ok(
      warnings.some(({ warning }) => `${warning}`.includes(`late.pem: certificate 1 expired at ${until}`)),
    )
    await gateway.end()
  })

  it('names every fault of TLS files and clients at once', async () => {
    const other = await makeServerCertificate(tls.ca)
    const clients = [
      { id: 'a', mtls: { sanDns: 'a.example' } },
      { id: 'a', mtls: { sanDns: 'A.example' } },
      { id: 'c', hmac: { keyId: 'k', secrets: [{ env: 'NOT_SET' }] } },
      { id: 'd' },
    ]
    const GATEWAY_CLIENTS = tls.write('bad-clients.json', JSON.stringify({ clients }))
    const GATEWAY_TLS_KEY = tls.write('other-key.pem', other.keyPem)
    const GATEWAY_TLS_CLIENT_CA = tls.write('no-ca.pem', other.certPem)
    const env = { ...tls.env, GATEWAY_CLIENTS, GATEWAY_TLS_KEY, GATEWAY_TLS_CLIENT_CA }
    const { status, lines } = await validate(env)
    assert.equal(status, 1)
    for (const start of [
      `${GATEWAY_TLS_KEY}: $: is not the key of the certificate in ${tls.env.GATEWAY_TLS_CERT}`,
      `${GATEWAY_TLS_CLIENT_CA}: certificate 1: is not of a certificate authority`,
      `${GATEWAY_CLIENTS}: $.clients[1].id: is the same id as $.clients[0].id`,
      `${GATEWAY_CLIENTS}: $.clients[1].mtls.sanDns: `,
      `${GATEWAY_CLIENTS}: $.clients[2].hmac.secrets[0]: the environment variable NOT_SET is not set`,
      `${GATEWAY_CLIENTS}: $.clients[3]: `,
    ]) {
      assert.equal(lines.filter((line) => line.startsWith(start)).length, 1, `${start}\n${lines.join('\n')}`)
    }
  })

  it('names the keys of an HTTPS listener that are missing', async () => {
    const { status, lines } = await validate({ GATEWAY_TLS_PORT: '8443', GATEWAY_TLS_CLIENT_CRL: 'crl.pem' })
    assert.equal(status, 1)
    for (const name of ['GATEWAY_TLS_CERT', 'GATEWAY_TLS_KEY', 'GATEWAY_TLS_CLIENT_CRL']) {
      assert.equal(lines.filter((line) => line.startsWith(`environment: ${name}: `)).length, 1, name)
    }
  })
})
