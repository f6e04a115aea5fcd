import assert from 'node:assert/strict'
import { execFile, execFileSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, it } from 'node:test'
import type { ConnectionOptions } from 'node:tls'
import { promisify } from 'node:util'
import { describeFault } from '../../config/faults.ts'
import { skipWithout } from '../../e2e/other-programs.ts'
import { CLIENT_AUTH, makeAuthority, makeCertificate, makeRevocationList } from '../demo/throw-away-ca.ts'
import {
  FILES,
  makeFixture,
  makeServer,
  materialOf,
  TestClient,
  TestServer,
  textsOf,
  uncheckedList,
} from './connect.test-support.ts'
import { parseTls, type TlsTexts } from './tls-context.ts'

const DAY_MS = 86_400_000
const fixture = await makeFixture()

function faultsOf(more: Partial<TlsTexts>, nowMs = Date.now()): string[] {
  return parseTls(FILES, textsOf(fixture, more), nowMs).faults?.map(describeFault) ?? []
}

function keyPem(kind: 'rsa' | 'ec' | 'ed25519', options: object): string {
  // No overload in the types of Node takes a union.
  const { privateKey } = generateKeyPairSync(kind as 'ec', options as { namedCurve: string })
  return privateKey.export({ type: 'pkcs8', format: 'pem' }) as string
}

describe('the files of the HTTPS listener', () => {
  it('that are valid make material without a warning', async () => {
    const { ca, server } = fixture
    const clientCrl = await makeRevocationList(ca, { revoked: [server] })
    const { secure, trust, summary, warnings } = materialOf(
      textsOf(fixture, { clientCa: ca.certPem, clientCrl }),
    )
    assert.deepEqual(warnings, [])
    assert.equal(trust?.authorities.length, 1)
    assert.deepEqual(summary.clientAuthorities, ['CN=Root,O=Test'])
    assert.equal(summary.revoked, 1)
    assert.equal(summary.certificate.subject, 'CN=localhost')
    assert.match(summary.certificate.thumbprint, /^[0-9a-f]{64}$/)
    const notAfterMs = server.certificate.notAfter.getTime()
    assert.equal(summary.certificate.notAfterSeconds, Math.floor(notAfterMs / 1000))
    assert.equal(secure.minVersion, 'TLSv1.2')
    assert.doesNotMatch(JSON.stringify(summary), /PRIVATE/)
  })

  it('may hold a chain, text between blocks, CRLF, RSA, and the parameters of a curve before the key', {
    skip: skipWithout('openssl'),
  }, async () => {
    const { ca, server } = fixture
    const cert = `Certificate:\n  Data: x\n${server.certPem}\nsubject=x\n${ca.certPem}`.replaceAll(
      '\n',
      '\r\n',
    )
    assert.deepEqual(materialOf(textsOf(fixture, { cert })).warnings, [])
    const parameters = execFileSync('openssl', ['ecparam', '-name', 'prime256v1'], { encoding: 'utf8' })
    materialOf(textsOf(fixture, { key: parameters + server.keyPem }))
    const rsa = await makeServer(ca, 2048)
    materialOf(textsOf({ ca, server: rsa }))
  })

  it('report all faults together, each with its file and reason', async () => {
    const other = await makeAuthority({ subject: 'CN=Other' })
    const faults = faultsOf({
      key: other.keyPem,
      clientCa: fixture.server.certPem,
      clientCrl: 'nothing',
    })
    assert.deepEqual(faults, [
      'server-key.pem: $: is not the key of the certificate in server.pem',
      'ca.pem: certificate 1: is not of a certificate authority (CN=localhost)',
      'crl.pem: $: is not PEM: it has no line -----BEGIN …-----',
    ])
  })

  it('are refused when a block is no certificate', () => {
    const { server } = fixture
    const block = (label: string, body: string) =>
      `-----BEGIN ${label}-----\n${body}\n-----END ${label}-----\n`
    assert.match(faultsOf({ cert: '' })[0] ?? '', /^server\.pem: \$: is not PEM/)
    assert.match(faultsOf({ cert: server.keyPem })[0] ?? '', /block 1: is a private key/)
    assert.match(
      faultsOf({ cert: block('X509 CRL', 'AAAA') })[0] ?? '',
      /block 1: must be a CERTIFICATE, but is a X509 CRL/,
    )
    assert.match(
      faultsOf({ cert: server.certPem + block('CERTIFICATE', 'AAAA') })[0] ?? '',
      /block 2: is not an X\.509/,
    )
    assert.match(faultsOf({ cert: block('CERTIFICATE', 'AA?A') })[0] ?? '', /block 1 is not base64/)
    assert.match(
      faultsOf({ cert: server.certPem.slice(0, -40) })[0] ?? '',
      /1 BEGIN lines, but only 0 whole blocks/,
    )
    assert.match(faultsOf({ clientCa: server.keyPem })[0] ?? '', /^ca\.pem: block 1: is a private key/)
  })

  it('are refused when the private key is not good', { skip: skipWithout('openssl') }, async () => {
    const { server, ca } = fixture
    const encrypted = execFileSync('openssl', 'pkcs8 -topk8 -passout pass:x'.split(' '), {
      input: server.keyPem,
      encoding: 'utf8',
    })
    const old = execFileSync('openssl', 'ec -aes128 -passout pass:x'.split(' '), {
      input: server.keyPem,
      encoding: 'utf8',
      stdio: 'pipe',
    })
    const broken = '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n'
    const cases: [string, RegExp][] = [
      ['', /is not PEM/],
      [server.certPem, /must be a PRIVATE KEY, but is a CERTIFICATE/],
      [server.keyPem + ca.keyPem, /must hold one private key and nothing else/],
      [encrypted, /is encrypted/],
      [old, /is encrypted/],
      [broken, /is not a private key/],
      [keyPem('rsa', { modulusLength: 1024 }), /RSA key of 2048 bits or more, but has 1024/],
      [
        keyPem('ec', { namedCurve: 'secp256k1' }),
        /must be on the curve P-256, P-384 or P-521, but is on secp256k1/,
      ],
      [keyPem('ed25519', {}), /must be an RSA or an EC key, but is of the kind ed25519/],
    ]
    for (const [key, reason] of cases) assert.match(faultsOf({ key })[0] ?? '', reason)
    for (const [key] of cases) assert.match(faultsOf({ key })[0] ?? '', /^server-key\.pem: \$: /)
  })

  it('are refused when the issuer of an authority is missing', async () => {
    const { ca } = fixture
    const between = await makeAuthority({ subject: 'CN=Between', issuer: ca })
    assert.match(
      faultsOf({ clientCa: between.certPem })[0] ?? '',
      /^ca\.pem: certificate 1: is of an intermediate authority \(CN=Between\)/,
    )
    assert.deepEqual(faultsOf({ clientCa: between.certPem + ca.certPem }), [])
  })

  it('are refused when the revocation file lacks the list of an authority, or holds something else', async () => {
    const { ca } = fixture
    const namesake = await makeAuthority({ subject: 'CN=Root,O=Test' })
    const clientCa = ca.certPem
    const lacks =
      /^crl\.pem: \$: has no list of the authority CN=Root,O=Test: every client of it would be refused/
    assert.match(faultsOf({ clientCa, clientCrl: await makeRevocationList(namesake) })[0] ?? '', lacks)
    assert.match(
      faultsOf({ clientCa, clientCrl: ca.certPem })[0] ?? '',
      /block 1: must be an X509 CRL, but is a CERTIFICATE/,
    )
    const other = await makeAuthority({ subject: 'CN=Other' })
    const own = uncheckedList(await makeRevocationList(ca))
    assert.deepEqual(faultsOf({ clientCa: clientCa + other.certPem, clientCrl: own }), [
      'crl.pem: $: has no list of the authority CN=Other: every client of it would be refused',
    ])
    const both = own + uncheckedList(await makeRevocationList(other))
    assert.deepEqual(faultsOf({ clientCa: clientCa + other.certPem, clientCrl: both }), [])
    const garbage = '-----BEGIN X509 CRL-----\nMAA=\n-----END X509 CRL-----\n'
    assert.match(
      faultsOf({ clientCa, clientCrl: garbage })[0] ?? '',
      /block 1: is not a certificate revocation list/,
    )
    const delta =
      '-----BEGIN X509 CRL-----\nMDAwKQIBATAAMAAXDTI2MDEwMTAwMDAwMFqgETAPMA0GA1UdGwEB/wQDAgEBMAAD\nAQA=\n-----END X509 CRL-----\n'
    assert.deepEqual(faultsOf({ clientCa, clientCrl: delta }), [
      'crl.pem: block 1: is a delta list: complete lists are needed',
    ])
  })

  it('that only OpenSSL refuses are a fault, not a crash', async () => {
    const weak = await makeAuthority({ subject: 'CN=Weak', rsaBits: 1024 })
    const server = await makeServer(weak)
    const faults = faultsOf({ cert: server.certPem + weak.certPem, key: server.keyPem })
    assert.match(faults[0] ?? '', /^server\.pem: \$: OpenSSL refuses it: .*ca key too small/)
  })

  it('warn of expired or future certificates, a wrong usage and a chain out of order', async () => {
    const { ca } = fixture
    const server = await makeServer(ca)
    const clientCrl = await makeRevocationList(ca)
    const texts = textsOf({ ca, server }, { clientCa: ca.certPem, clientCrl })
    const late = materialOf(texts, Date.now() + 31 * DAY_MS).warnings
    assert.match(late[0] ?? '', /^server\.pem: certificate 1 expired at 20/)
    assert.match(late[1] ?? '', /^ca\.pem: certificate 1 expired at 20/)
    assert.match(
      late[2] ?? '',
      /^crl\.pem: list 1 has been out of date since 20.*every client of its authority is refused/,
    )
    const early = materialOf(texts, Date.now() - 2 * DAY_MS).warnings
    assert.match(early[0] ?? '', /^server\.pem: certificate 1 is not valid before 20/)
    assert.match(early[2] ?? '', /^crl\.pem: list 1 is not valid before 20/)
    const forClients = await makeCertificate({
      subject: 'CN=x',
      issuer: ca,
      extendedKeyUsages: [CLIENT_AUTH],
    })
    assert.match(materialOf(textsOf({ ca, server: forClients })).warnings[0] ?? '', /is not for servers/)
    const other = await makeAuthority({ subject: 'CN=Other' })
    const cert = server.certPem + other.certPem
    assert.match(
      materialOf(textsOf({ ca, server }, { cert })).warnings[0] ?? '',
      /certificate 2 has not issued certificate 1/,
    )
    const lists = clientCrl + (await makeRevocationList(other))
    const { warnings } = materialOf({ ...texts, clientCrl: lists })
    assert.deepEqual(warnings, ['crl.pem: list 2 is signed by none of the client authorities'])
  })
})

describe('the listener', () => {
  async function protocolOf(server: TestServer, options: ConnectionOptions) {
    const { socket } = await TestClient.connect(server, { ca: fixture.ca.certPem, ...options })
    const told = { version: socket.getProtocol(), suite: socket.getCipher().name, alpn: socket.alpnProtocol }
    socket.destroy()
    return told
  }

  it('speaks TLS 1.2 with forward secrecy and AEAD only, and TLS 1.3', async (t) => {
    for (const rsaBits of [undefined, 2048]) {
      const server = await TestServer.start(
        t,
        materialOf(textsOf({ ...fixture, server: await makeServer(fixture.ca, rsaBits) })),
      )
      const kind = rsaBits === undefined ? 'ECDSA' : 'RSA'
      const suites = [`ECDHE-${kind}-AES128-GCM-SHA256`, `ECDHE-${kind}-AES256-GCM-SHA384`]
      for (const suite of suites) {
        const told = await protocolOf(server, { maxVersion: 'TLSv1.2', ciphers: suite })
        assert.deepEqual(told, { version: 'TLSv1.2', suite, alpn: 'http/1.1' })
      }
      const modern = await protocolOf(server, {})
      assert.deepEqual(modern, { version: 'TLSv1.3', suite: 'TLS_AES_128_GCM_SHA256', alpn: 'http/1.1' })
    }
  })

  it('chooses the cipher suite itself', async (t) => {
    const server = await TestServer.start(t, materialOf(textsOf(fixture)))
    const ciphers = 'ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256'
    const { suite } = await protocolOf(server, { maxVersion: 'TLSv1.2', ciphers })
    assert.equal(suite, 'ECDHE-ECDSA-AES128-GCM-SHA256')
  })

  it('refuses older versions, weak suites and groups, and other protocols', async (t) => {
    const rsa = await makeServer(fixture.ca, 2048)
    const server = await TestServer.start(t, materialOf(textsOf({ ...fixture, server: rsa })))
    const old = { ciphers: 'DEFAULT@SECLEVEL=0', minVersion: 'TLSv1' } as const
    const refused: [string, ConnectionOptions][] = [
      ['TLS 1.0', { ...old, maxVersion: 'TLSv1' }],
      ['TLS 1.1', { ...old, maxVersion: 'TLSv1.1' }],
      ['no forward secrecy', { maxVersion: 'TLSv1.2', ciphers: 'AES128-GCM-SHA256' }],
      ['CBC', { maxVersion: 'TLSv1.2', ciphers: 'ECDHE-RSA-AES128-SHA256' }],
      ['CBC with SHA-1', { maxVersion: 'TLSv1.2', ciphers: 'ECDHE-RSA-AES256-SHA' }],
      ['finite-field DHE', { maxVersion: 'TLSv1.2', ciphers: 'DHE-RSA-AES128-GCM-SHA256' }],
      ['no authentication', { maxVersion: 'TLSv1.2', ciphers: 'AECDH-AES128-SHA:@SECLEVEL=0' }],
      ['a group nobody asked for', { ecdhCurve: 'secp521r1' }],
      ['HTTP/2 alone', { ALPNProtocols: ['h2'] }],
    ]
    for (const [title, options] of refused) {
      await assert.rejects(
        protocolOf(server, options),
        /alert|unsupported protocol|no shared|ECONNRESET/i,
        title,
      )
    }
    assert.equal((await protocolOf(server, { ecdhCurve: 'prime256v1' })).version, 'TLSv1.3')
  })

  it('does not renegotiate', async (t) => {
    const server = await TestServer.start(t, materialOf(textsOf(fixture)))
    const { socket } = await TestClient.connect(server, { ca: fixture.ca.certPem, maxVersion: 'TLSv1.2' })
    const error = await new Promise<Error | null>((resolve) => {
      socket.on('error', resolve)
      socket.renegotiate({ rejectUnauthorized: false }, resolve)
    })
    assert.match(String(error), /no.?renegotiation/i)
    socket.destroy()
  })

  it('sends its authorities to clients, so that they can choose a certificate', {
    skip: skipWithout('openssl'),
  }, async (t) => {
    const server = await TestServer.start(t, materialOf(textsOf(fixture, { clientCa: fixture.ca.certPem })))
    const asked = promisify(execFile)('openssl', [
      's_client',
      '-connect',
      `127.0.0.1:${server.port}`,
      '-nameopt',
      'RFC2253',
    ])
    asked.child.stdin?.end()
    const { stdout: printed } = await asked
    assert.match(printed, /Acceptable client certificate CA names\nCN=Root,O=Test\n/)
  })

  it('lets a client close its half after the request, and responds', async (t) => {
    const server = await TestServer.start(t, materialOf(textsOf(fixture)))
    Object.assign(server.server, { httpAllowHalfOpen: true })
    const { socket } = await TestClient.connect(server, { ca: fixture.ca.certPem })
    // Node's types know the option for a plain socket only.
    socket.allowHalfOpen = true
    let text = ''
    socket.on('data', (piece) => {
      text += piece
    })
    socket.end('GET /after-end HTTP/1.1\r\nHost: localhost\r\n\r\n')
    await once(socket, 'close')
    assert.match(text, /^HTTP\/1\.1 200 OK/)
  })

  it('gives up a connection that is not TLS', async (t) => {
    const server = await TestServer.start(t, materialOf(textsOf(fixture)))
    const plain = connect(server.port, '127.0.0.1')
    plain.on('error', () => {})
    plain.write('GET / HTTP/1.1\r\n\r\n')
    await once(plain, 'close')
  })
})
