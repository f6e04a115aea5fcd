import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import type { TLSSocket } from 'node:tls'
import {
  type Authority,
  type CertificateOptions,
  CLIENT_AUTH,
  type Issued,
  makeAuthority,
  makeCertificate,
  makeRevocationList,
  SERVER_AUTH,
} from '../demo/throw-away-ca.ts'
import {
  makeFixture,
  materialOf,
  TestClient,
  TestServer,
  textsOf,
  verdictOn,
} from '../listener/connect.test-support.ts'
import { mayPassAnew, peerOf } from './peer.ts'

const DAY_MS = 86_400_000
const VERSIONS = ['TLSv1.2', 'TLSv1.3'] as const
/** Lets a client show a certificate that a careful client would not show. */
const LAX = 'DEFAULT@SECLEVEL=0'

const fixture = await makeFixture()
const { ca } = fixture
const good = await client()

function client(wish: Partial<CertificateOptions> = {}): Promise<Issued> {
  return makeCertificate({
    subject: 'CN=bank-b,O=Bank B',
    issuer: ca,
    extendedKeyUsages: [CLIENT_AUTH],
    ...wish,
  })
}

/** Material with the given revocation list; default: an empty list of the root. */
async function materialWith(clientCrl?: string, clientCa = ca.certPem) {
  return materialOf(textsOf(fixture, { clientCa, clientCrl: clientCrl ?? (await makeRevocationList(ca)) }))
}

describe('a client certificate', () => {
  it('that is good is authorized in TLS 1.2 and 1.3', async (t) => {
    const server = await TestServer.start(t, await materialWith())
    for (const maxVersion of VERSIONS) {
      const verdict = await verdictOn(server, ca, { certificate: good, options: { maxVersion } })
      assert.deepEqual(verdict, { authorized: true, resumed: false })
    }
  })

  it('without extended key usages is accepted', async (t) => {
    const server = await TestServer.start(t, await materialWith())
    const certificate = await client({ extendedKeyUsages: [] })
    assert.equal((await verdictOn(server, ca, { certificate })).authorized, true)
  })

  it('that is bad is not authorized, with a reason, and its connection stays open', async (t) => {
    const revoked = await client()
    const server = await TestServer.start(
      t,
      await materialWith(await makeRevocationList(ca, { revoked: [revoked] })),
    )
    const namesake = await makeAuthority({ subject: 'CN=Root,O=Test' })
    const stranger = await makeAuthority({ subject: 'CN=Stranger' })
    const cases: [string, Issued, RegExp, Issued[]?][] = [
      ['expired', await client({ fromDays: -9, untilDays: -1 }), /has expired/],
      ['not valid yet', await client({ fromDays: 1 }), /not valid yet/],
      ['of an unknown authority', await client({ issuer: stranger }), /issuer is not known/],
      [
        'of an unknown authority that is sent along',
        await client({ issuer: stranger }),
        /not trusted|no revocation list/,
        [stranger],
      ],
      ['of a namesake of the authority', await client({ issuer: namesake }), /issuer is not known/],
      ['signed by itself', await client({ issuer: undefined }), /signed by itself/],
      ['revoked', revoked, /was revoked/],
      ['for servers only', await client({ extendedKeyUsages: [SERVER_AUTH] }), /not for clients/],
      [
        'issued by another client',
        await client({ issuer: good as Authority }),
        /its issuer is no authority/,
        [good],
      ],
      [
        'with a critical extension that nobody knows',
        await client({ criticalOids: ['1.2.3.4.5'] }),
        /it breaks a rule/,
      ],
      ['with a short key', await client({ rsaBits: 1024 }), /its key is short/],
    ]
    for (const [title, certificate, reason, chain = []] of cases) {
      for (const maxVersion of VERSIONS) {
        const options = { maxVersion, ciphers: LAX }
        const verdict = await verdictOn(server, ca, { certificate, chain, options })
        assert.equal(verdict.authorized, false, title)
        assert.match(verdict.reason ?? '', reason, title)
      }
    }
  })

  it('signed by itself is named as such where there is no revocation list', async (t) => {
    const server = await TestServer.start(t, materialOf(textsOf(fixture, { clientCa: ca.certPem })))
    const certificate = await client({ issuer: undefined })
    assert.match((await verdictOn(server, ca, { certificate })).reason ?? '', /^it is signed by itself/)
  })

  it('of an authority whose list is out of date is refused', async (t) => {
    const list = await makeRevocationList(ca, { fromDays: -9, untilDays: -1 })
    const server = await TestServer.start(t, await materialWith(list))
    const { authorized, reason } = await verdictOn(server, ca, { certificate: good })
    assert.equal(authorized, false)
    assert.match(reason ?? '', /list of its issuer is out of date/)
  })

  it('may be issued through an intermediate that the client sends or the file holds', async (t) => {
    const between = await makeAuthority({ subject: 'CN=Between,O=Test', issuer: ca })
    const certificate = await client({ issuer: between })
    const lists = (await makeRevocationList(ca)) + (await makeRevocationList(between))
    const sent = await TestServer.start(t, await materialWith(lists))
    const held = await TestServer.start(t, await materialWith(lists, ca.certPem + between.certPem))
    assert.equal((await verdictOn(sent, ca, { certificate, chain: [between] })).authorized, true)
    assert.equal((await verdictOn(sent, ca, { certificate })).authorized, false)
    assert.equal((await verdictOn(held, ca, { certificate })).authorized, true)
  })

  it('that was not sent is undefined, also on a second connection that offers the session of the first', async (t) => {
    const server = await TestServer.start(t, await materialWith())
    for (const maxVersion of VERSIONS) {
      const first = await TestClient.connect(server, { ca: ca.certPem, maxVersion })
      assert.deepEqual(await first.ask(), { resumed: false })
      const session = first.session
      assert.ok(session)
      const second = await TestClient.connect(server, { ca: ca.certPem, maxVersion, session })
      assert.deepEqual(await second.ask(), { resumed: false })
      first.socket.destroy()
      second.socket.destroy()
    }
    assert.equal(server.peer, undefined)
  })

  it('is not requested where no authority is configured', async (t) => {
    const server = await TestServer.start(t, materialOf(textsOf(fixture)))
    assert.deepEqual(await verdictOn(server, ca, { certificate: good }), { resumed: false })
  })
})

describe('the identity of a client certificate', () => {
  it('has both forms of its thumbprint, its DER, its names and its subject', async (t) => {
    const certificate = await client({
      subject: 'CN=bank-b,OU=Payments,O=Bank B\\, Inc.,C=DE',
      san: [
        { type: 'dns', value: 'API.Bank-B.example' },
        { type: 'url', value: 'urn:bank:B' },
        { type: 'ip', value: '192.0.2.1' },
        { type: 'email', value: 'ops@bank-b.example' },
      ],
    })
    const server = await TestServer.start(t, await materialWith())
    await verdictOn(server, ca, { certificate })
    const der = Buffer.from(certificate.certificate.rawData)
    const digest = createHash('sha256').update(der).digest()
    const { authorities, ...peer } = server.peer ?? {}
    assert.deepEqual(
      authorities?.map(({ raw }) => raw),
      [Buffer.from(ca.certificate.rawData)],
    )
    assert.deepEqual(peer, {
      authorized: true,
      reason: undefined,
      thumbprintHex: digest.toString('hex'),
      thumbprintBase64url: digest.toString('base64url'),
      subject: 'CN=bank-b,OU=Payments,O=Bank B\\, Inc.,C=DE',
      sanDns: ['api.bank-b.example'],
      sanUri: ['urn:bank:B'],
      der,
    })
  })

  it('is computed once per connection', async (t) => {
    const server = await TestServer.start(t, await materialWith())
    const one = await TestClient.connect(server, { ca: ca.certPem, key: good.keyPem, cert: good.certPem })
    await one.ask()
    const { peer } = server
    await one.ask()
    assert.equal(server.peer, peer)
    one.socket.destroy()
  })
})

describe('an open connection', () => {
  const shown = (certificate: Issued) => ({
    ca: ca.certPem,
    key: certificate.keyPem,
    cert: certificate.certPem,
  })

  it('is refused from the first request after its certificate was revoked, and others are not', async (t) => {
    const revoked = await client()
    const server = await TestServer.start(t, await materialWith())
    const bad = await TestClient.connect(server, shown(revoked))
    const fine = await TestClient.connect(server, shown(good))
    assert.equal((await bad.ask()).authorized, true)
    assert.equal((await fine.ask()).authorized, true)
    server.swap(await materialWith(await makeRevocationList(ca, { revoked: [revoked] })))
    assert.deepEqual(await bad.ask(), {
      authorized: false,
      reason: 'it was revoked',
      mayPassAnew: true,
      resumed: false,
    })
    assert.deepEqual(await fine.ask(), { authorized: true, resumed: false })
    // A list without the certificate does not undo the refusal: the client must connect again.
    server.swap(await materialWith())
    const again = await bad.ask()
    assert.deepEqual([again.authorized, again.mayPassAnew], [false, true])
    assert.equal((await verdictOn(server, ca, { certificate: revoked })).authorized, true)
    bad.socket.destroy()
    fine.socket.destroy()
  })

  it('without a certificate may be replaced once there are other authorities, but not for another list', async () => {
    const socket = { getPeerX509Certificate: () => undefined } as TLSSocket
    const { trust } = await materialWith()
    assert.ok(trust)
    assert.equal(peerOf(socket, trust, 0), undefined)
    for (const same of [trust, { ...trust, lists: [] }, undefined])
      assert.equal(mayPassAnew(socket, same), false)
    assert.equal(mayPassAnew(socket, { ...trust, authorities: [] }), true)
  })

  it('is checked against the material in force at its first request, not at its handshake', async (t) => {
    const revoked = await client()
    const server = await TestServer.start(t, await materialWith())
    const early = await TestClient.connect(server, shown(revoked))
    server.swap(await materialWith(await makeRevocationList(ca, { revoked: [revoked] })))
    assert.equal((await early.ask()).authorized, false)
    early.socket.destroy()
  })

  it('is refused when its authority is no longer trusted, and has no certificate when none are requested any more', async (t) => {
    const server = await TestServer.start(t, await materialWith())
    const one = await TestClient.connect(server, shown(good))
    const two = await TestClient.connect(server, shown(good))
    assert.equal((await one.ask()).authorized, true)
    assert.equal((await two.ask()).authorized, true)
    const other = await makeAuthority({ subject: 'CN=Root,O=Test' })
    server.swap(await materialWith(await makeRevocationList(other), other.certPem))
    assert.match((await one.ask()).reason ?? '', /no authority in force/)
    server.swap(materialOf(textsOf(fixture)))
    assert.deepEqual(await two.ask(), { resumed: false })
    one.socket.destroy()
    two.socket.destroy()
  })

  it('is refused when an intermediate authority was revoked', async (t) => {
    const between = await makeAuthority({ subject: 'CN=Between,O=Test', issuer: ca })
    const certificate = await client({ issuer: between })
    const own = await makeRevocationList(between)
    const server = await TestServer.start(t, await materialWith((await makeRevocationList(ca)) + own))
    const cert = certificate.certPem + between.certPem
    const one = await TestClient.connect(server, { ca: ca.certPem, key: certificate.keyPem, cert })
    assert.equal((await one.ask()).authorized, true)
    server.swap(await materialWith((await makeRevocationList(ca)) + (await makeRevocationList(between))))
    assert.equal((await one.ask()).authorized, true)
    server.swap(await materialWith((await makeRevocationList(ca, { revoked: [between] })) + own))
    assert.equal((await one.ask()).reason, 'it was revoked')
    one.socket.destroy()
  })

  it('is not refused for a serial number that another authority has revoked', async (t) => {
    const other = await makeAuthority({ subject: 'CN=Other' })
    const server = await TestServer.start(t, await materialWith())
    const one = await TestClient.connect(server, shown(good))
    const lists = (await makeRevocationList(ca)) + (await makeRevocationList(other, { revoked: [good] }))
    server.swap(await materialWith(lists, ca.certPem + other.certPem))
    assert.equal((await one.ask()).authorized, true)
    one.socket.destroy()
  })

  it('is refused once its certificate has expired', async (t) => {
    const server = await TestServer.start(t, await materialWith())
    const one = await TestClient.connect(server, shown(good))
    assert.equal((await one.ask()).authorized, true)
    server.clock = () => Date.now() + 31 * DAY_MS
    assert.deepEqual(await one.ask(), {
      authorized: false,
      reason: 'it has expired',
      mayPassAnew: true,
      resumed: false,
    })
    one.socket.destroy()
  })

  it('is refused once the certificate of an intermediate authority has expired', async (t) => {
    const between = await makeAuthority({ subject: 'CN=Between,O=Test', issuer: ca, untilDays: 2 })
    const certificate = await client({ issuer: between })
    const lists = (await makeRevocationList(ca)) + (await makeRevocationList(between))
    const server = await TestServer.start(t, await materialWith(lists))
    const cert = certificate.certPem + between.certPem
    const one = await TestClient.connect(server, { ca: ca.certPem, key: certificate.keyPem, cert })
    assert.equal((await one.ask()).authorized, true)
    server.clock = () => Date.now() + DAY_MS
    assert.equal((await one.ask()).authorized, true)
    server.clock = () => Date.now() + 3 * DAY_MS
    assert.equal((await one.ask()).reason, 'the certificate of its issuer has expired')
    assert.equal((await one.ask()).authorized, false)
    one.socket.destroy()
  })

  it('is refused once the revocation list of its issuer has expired, until there is a new one', async (t) => {
    const material = await materialWith(await makeRevocationList(ca, { untilDays: 1 }))
    const server = await TestServer.start(t, material)
    const one = await TestClient.connect(server, shown(good))
    assert.equal((await one.ask()).authorized, true)
    server.clock = () => Date.now() + 2 * DAY_MS
    const { reason, mayPassAnew } = await one.ask()
    assert.deepEqual([reason, mayPassAnew], ['the revocation list of its issuer is out of date', undefined])
    server.swap(await materialWith())
    assert.equal((await one.ask()).authorized, true)
    one.socket.destroy()
  })

  it('is refused for good if its handshake met an expired list, and another connection may pass', async (t) => {
    const server = await TestServer.start(
      t,
      await materialWith(await makeRevocationList(ca, { untilDays: -1 })),
    )
    const one = await TestClient.connect(server, shown(good))
    const { authorized, reason, mayPassAnew } = await one.ask()
    assert.deepEqual(
      [authorized, reason, mayPassAnew],
      [false, 'the revocation list of its issuer is out of date', true],
    )
    server.swap(await materialWith())
    assert.equal((await one.ask()).authorized, false)
    const another = await TestClient.connect(server, shown(good))
    assert.deepEqual([(await another.ask()).authorized, (await another.ask()).mayPassAnew], [true, undefined])
    one.socket.destroy()
    another.socket.destroy()
  })

  it('is refused for good if its handshake refused it, and after a reload another connection may pass', async (t) => {
    const stranger = await makeAuthority({ subject: 'CN=Stranger' })
    const certificate = await client({ issuer: stranger })
    const server = await TestServer.start(t, await materialWith())
    const one = await TestClient.connect(server, shown(certificate))
    assert.deepEqual([(await one.ask()).authorized, (await one.ask()).mayPassAnew], [false, undefined])
    const lists = (await makeRevocationList(ca)) + (await makeRevocationList(stranger))
    server.swap(await materialWith(lists, ca.certPem + stranger.certPem))
    assert.deepEqual([(await one.ask()).authorized, (await one.ask()).mayPassAnew], [false, true])
    assert.equal((await verdictOn(server, ca, { certificate })).authorized, true)
    one.socket.destroy()
  })

  it('is refused once the list of the authority above its issuer has expired', async (t) => {
    const between = await makeAuthority({ subject: 'CN=Between,O=Test', issuer: ca })
    const certificate = await client({ issuer: between })
    const short = await makeRevocationList(ca, { untilDays: 1 })
    const server = await TestServer.start(t, await materialWith(short + (await makeRevocationList(between))))
    const cert = certificate.certPem + between.certPem
    const one = await TestClient.connect(server, { ca: ca.certPem, key: certificate.keyPem, cert })
    assert.equal((await one.ask()).authorized, true)
    server.clock = () => Date.now() + 2 * DAY_MS
    assert.equal((await one.ask()).reason, 'the revocation list of its issuer is out of date')
    one.socket.destroy()
  })
})

describe('a session', () => {
  it('is not resumed where client certificates are accepted, so that a revocation counts at once', async (t) => {
    const certificate = await client()
    for (const maxVersion of VERSIONS) {
      const server = await TestServer.start(t, await materialWith())
      const options = { ca: ca.certPem, key: certificate.keyPem, cert: certificate.certPem, maxVersion }
      const first = await TestClient.connect(server, options)
      assert.equal((await first.ask()).authorized, true)
      const session = first.session
      assert.ok(session)
      const second = await TestClient.connect(server, { ...options, session })
      assert.deepEqual(await second.ask(), { authorized: true, resumed: false })
      server.swap(await materialWith(await makeRevocationList(ca, { revoked: [certificate] })))
      const third = await TestClient.connect(server, { ...options, session })
      assert.deepEqual(await third.ask(), { authorized: false, reason: 'it was revoked', resumed: false })
      for (const { socket } of [first, second, third]) socket.destroy()
    }
  })

  it('is resumed where none are requested', async (t) => {
    for (const maxVersion of VERSIONS) {
      const server = await TestServer.start(t, materialOf(textsOf(fixture)))
      const first = await TestClient.connect(server, { ca: ca.certPem, maxVersion })
      await first.ask()
      const session = first.session
      assert.ok(session)
      const second = await TestClient.connect(server, { ca: ca.certPem, maxVersion, session })
      assert.deepEqual(await second.ask(), { resumed: true })
      first.socket.destroy()
      second.socket.destroy()
    }
  })
})
