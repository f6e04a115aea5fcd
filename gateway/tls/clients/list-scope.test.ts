import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { before, describe, it, type TestContext } from 'node:test'
import { der, TAG } from '../../asn1/der.ts'
import {
  type Authority,
  CLIENT_AUTH,
  type Issued,
  makeAuthority,
  makeCertificate,
  makeRevocationList,
} from '../demo/throw-away-ca.ts'
import {
  FILES,
  makeFixture,
  materialOf,
  TestClient,
  TestServer,
  textsOf,
  verdictOn,
} from '../listener/connect.test-support.ts'
import { parseTls } from '../listener/tls-context.ts'
import { trustedPath, trustGoodUntilMs } from './trust.ts'

const DAY_MS = 86_400_000
const sequence = (...content: Buffer[]) => der(TAG.sequence, ...content)
/** A DistributionPointName of full names. */
const point = (...urls: string[]) =>
  der(0xa0, der(0xa0, ...urls.map((url) => der(0x86, Buffer.from(`http://crl.example/${url}`)))))
const ofPoints = (...urls: string[]) => sequence(point(...urls))
const USERS = sequence(der(0x81, Buffer.from([0xff])))
const AUTHORITIES = sequence(der(0x82, Buffer.from([0xff])))

describe('a partitioned revocation list', () => {
  let root: Authority
  let between: Authority
  let fixture: Awaited<ReturnType<typeof makeFixture>>
  let first: Issued
  let second: Issued
  let both: Issued
  let either: Issued
  let none: Issued
  let foreign: Issued

  const client = (...points: Buffer[]) =>
    makeCertificate({
      subject: 'CN=client',
      issuer: between,
      extendedKeyUsages: [CLIENT_AUTH],
      ...(points.length > 0 && {
        extensions: { '2.5.29.31': sequence(...points.map((one) => sequence(one))) },
      }),
    })
  before(async () => {
    root = await makeAuthority({ subject: 'CN=Root,O=Test' })
    between = await makeAuthority({ subject: 'CN=Between,O=Test', issuer: root })
    fixture = await makeFixture()
    first = await client(point('1'))
    second = await client(point('2'))
    both = await client(point('1'), point('2'))
    either = await client(point('elsewhere', '2'))
    none = await client()
    // Signed by another authority.
    foreign = await client(Buffer.concat([point('1'), der(0xa2, der(0xa4, sequence()))]))
  })

  const list = (scope: Buffer, ...revoked: Issued[]) => makeRevocationList(between, { scope, revoked })
  async function material(...lists: string[]) {
    const clientCrl = [await makeRevocationList(root), ...lists].join('')
    return materialOf(textsOf(fixture, { clientCa: root.certPem + between.certPem, clientCrl }))
  }
  async function verdicts(t: TestContext, lists: readonly string[], certificates: readonly Issued[]) {
    const { trust, ...rest } = await material(...lists)
    assert.ok(trust)
    const server = await TestServer.start(t, { trust, ...rest })
    const found: (string | true)[] = []
    for (const certificate of certificates) {
      const { authorized, reason = '' } = await verdictOn(server, fixture.ca, { certificate })
      found.push(authorized === true ? true : reason)
      // OpenSSL has judged first, and the gateway judges alike.
      const leaf = new X509Certificate(certificate.certPem)
      const path = trustedPath({ leaf, intermediates: [] }, trust, Date.now())
      assert.equal(typeof path === 'object', authorized, `${reason}, but ${String(path)}`)
    }
    return found
  }
  const UNCOVERED = /no revocation list here that covers it/

  it('speaks for certificates that name its point, and for no other', async (t) => {
    const lists = [await list(ofPoints('1'))]
    const found = await verdicts(t, lists, [first, second, both, either, none, foreign])
    assert.deepEqual([found[0], found[2]], [true, true])
    for (const at of [1, 3, 4, 5]) assert.match(String(found[at]), UNCOVERED)
  })

  it('revokes in its scope alone', async (t) => {
    const lists = [await list(ofPoints('1'), first, second, either), await list(ofPoints('2', 'x'))]
    assert.deepEqual(await verdicts(t, lists, [first, second, either]), ['it was revoked', true, true])
  })

  it('of users says nothing of authorities, and one of authorities nothing of users', async (t) => {
    assert.deepEqual(await verdicts(t, [await list(USERS, first)], [first, none]), ['it was revoked', true])
    const [found] = await verdicts(t, [await list(AUTHORITIES)], [none])
    assert.match(String(found), UNCOVERED)
  })

  it('counts on open connections as in handshakes', async (t) => {
    const server = await TestServer.start(
      t,
      await material(await list(ofPoints('1')), await list(ofPoints('2'))),
    )
    const connected = ({ certPem: cert, keyPem: key }: Issued) =>
      TestClient.connect(server, { ca: fixture.ca.certPem, cert, key })
    const [one, two] = [await connected(first), await connected(second)]
    t.after(() => {
      for (const { socket } of [one, two]) socket.destroy()
    })
    assert.deepEqual([(await one.ask()).authorized, (await two.ask()).authorized], [true, true])
    server.swap(await material(await list(ofPoints('1'), first, second), await list(ofPoints('2'))))
    assert.deepEqual([(await one.ask()).reason, (await two.ask()).authorized], ['it was revoked', true])
    server.swap(await material(await list(ofPoints('1'))))
    assert.equal((await two.ask()).reason, 'its issuer has no revocation list here that covers it')
  })

  it('must leave no authority of the file without a list', async () => {
    const crls = async (...lists: string[]) => {
      const texts = textsOf(fixture, { clientCa: root.certPem, clientCrl: lists.join('') })
      return parseTls(FILES, texts, Date.now()).faults?.map(({ reason }) => reason)
    }
    const users = await makeRevocationList(root, { scope: USERS })
    assert.match(
      String(await crls(users)),
      /^has no list that covers the certificate of CN=Root,O=Test: every client/,
    )
    assert.equal(await crls(users, await makeRevocationList(root, { scope: AUTHORITIES })), undefined)
  })

  it('is in time only while each scope has a list in time', async () => {
    const scoped = (scope: Buffer, untilDays: number) => makeRevocationList(between, { scope, untilDays })
    const { trust } = await material(
      await scoped(ofPoints('1'), 2),
      await scoped(ofPoints('1'), 9),
      await scoped(ofPoints('2'), 5),
    )
    assert.ok(trust)
    assert.equal(Math.round((trustGoodUntilMs(trust).lists - Date.now()) / DAY_MS), 5)
    // Only an intermediate that clients send has lists, so only the lists tell which scopes it has.
    const { lists } = trust
    const alone = { authorities: [new X509Certificate(root.certPem)], lists }
    assert.equal(Math.round((trustGoodUntilMs(alone).lists - Date.now()) / DAY_MS), 5)
  })
})
