import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { describe, it, test } from 'node:test'
import { type Issued, makeAuthority, makeCertificate, makeRevocationList } from '../demo/throw-away-ca.ts'
import { uncheckedList } from '../listener/connect.test-support.ts'
import { readRevocationList } from './revocation-list.ts'
import { LIST_OUT_OF_DATE, type SentChain, trustedPath, trustGoodUntilMs } from './trust.ts'

const UNKNOWN = 'no authority in force has issued it'

/** Why there is no path, or undefined. */
function distrustOf(
  chain: SentChain,
  trust: Parameters<typeof trustedPath>[1],
  nowMs: number,
): string | undefined {
  const path = trustedPath(chain, trust, nowMs)
  return typeof path === 'string' ? path : undefined
}

function x509({ certPem }: Issued): X509Certificate {
  return new X509Certificate(certPem)
}

function listOf(pem: string) {
  return readRevocationList(Buffer.from(pem.replaceAll(/-----.*-----|\s/g, ''), 'base64'))
}

function uncheckedListOf(pem: string) {
  return listOf(uncheckedList(pem))
}

test('a namesake of the authority is not the authority: the signature decides', async () => {
  const wish = { subject: 'CN=Root', keyIdentifiers: false }
  const [ca, namesake] = await Promise.all([makeAuthority(wish), makeAuthority(wish)])
  const leaf = x509(await makeCertificate({ subject: 'CN=c', issuer: ca, keyIdentifiers: false }))
  const chain = { leaf, intermediates: [] }
  assert.equal(distrustOf(chain, { authorities: [x509(namesake)], lists: [] }, Date.now()), UNKNOWN)
  assert.equal(
    distrustOf(chain, { authorities: [x509(namesake), x509(ca)], lists: [] }, Date.now()),
    undefined,
  )
})

test('a certificate that the client sends along can lead to an authority, but is not an authority itself', async () => {
  const root = await makeAuthority({ subject: 'CN=Root' })
  const between = await makeAuthority({ subject: 'CN=Between', issuer: root })
  const leaf = x509(await makeCertificate({ subject: 'CN=c', issuer: between }))
  const chain = { leaf, intermediates: [x509(root), x509(between)] }
  const stranger = await makeAuthority({ subject: 'CN=Stranger' })
  assert.equal(distrustOf(chain, { authorities: [x509(root)], lists: [] }, Date.now()), undefined)
  assert.equal(distrustOf(chain, { authorities: [x509(stranger)], lists: [] }, Date.now()), UNKNOWN)
  assert.equal(distrustOf(chain, { authorities: [], lists: [] }, Date.now()), UNKNOWN)
})

test('one valid path to an authority is enough when another path has expired', async () => {
  const root = await makeAuthority({ subject: 'CN=Root' })
  const old = await makeAuthority({ subject: 'CN=Old', untilDays: 1 })
  const between = await makeAuthority({ subject: 'CN=Between', issuer: root, untilDays: 90 })
  const expiring = await makeAuthority({ subject: 'CN=Between', issuer: old, untilDays: 1 })
  const leaf = x509(await makeCertificate({ subject: 'CN=c', issuer: between }))
  const chain = { leaf, intermediates: [x509(expiring), x509(between)] }
  const trust = { authorities: [x509(old), x509(root)], lists: [] }
  assert.equal(distrustOf(chain, trust, Date.now() + 5 * 86_400_000), undefined)
})

test('trust is good until the first authority expires, or the newest list of any authority', async () => {
  const days = (ms: number) => Math.round((ms - Date.now()) / 86_400_000)
  const [long, short] = await Promise.all([
    makeAuthority({ subject: 'CN=Long', untilDays: 90 }),
    makeAuthority({ subject: 'CN=Short', untilDays: 60 }),
  ])
  const lists = await Promise.all([
    makeRevocationList(short, { untilDays: 2 }),
    makeRevocationList(short, { untilDays: 9 }),
    makeRevocationList(long, { untilDays: 20 }),
  ])
  const authorities = [x509(long), x509(short)]
  const good = trustGoodUntilMs({ authorities, lists: lists.map(listOf) })
  assert.deepEqual([days(good.authorities), days(good.lists)], [60, 9])
  assert.equal(trustGoodUntilMs({ authorities, lists: [] }).lists, Number.POSITIVE_INFINITY)
})

test('trust is good no longer than the newest list of an authority that clients send along', async () => {
  const root = await makeAuthority({ subject: 'CN=Root' })
  const between = await makeAuthority({ subject: 'CN=Between', issuer: root })
  const lists = await Promise.all([
    makeRevocationList(root, { untilDays: 20 }),
    makeRevocationList(between, { untilDays: 1 }),
    makeRevocationList(between, { untilDays: 7 }),
  ])
  const good = trustGoodUntilMs({ authorities: [x509(root)], lists: lists.map(listOf) })
  assert.equal(Math.round((good.lists - Date.now()) / 86_400_000), 7)
})

describe('a list whose signature is not checked', () => {
  const DAY_MS = 86_400_000

  it('is that of the authority that it names, and revokes nothing of another', async () => {
    const [one, other] = await Promise.all([
      makeAuthority({ subject: 'CN=One' }),
      makeAuthority({ subject: 'CN=Other' }),
    ])
    const client = await makeCertificate({ subject: 'CN=c', issuer: one })
    const chain = { leaf: x509(client), intermediates: [] }
    const authorities = [x509(one), x509(other)]
    const own = uncheckedListOf(await makeRevocationList(one))
    const foreign = uncheckedListOf(await makeRevocationList(other, { revoked: [client] }))
    assert.equal(distrustOf(chain, { authorities, lists: [own, foreign] }, Date.now()), undefined)
    assert.equal(
      distrustOf(chain, { authorities, lists: [foreign] }, Date.now()),
      'its issuer has no revocation list here that covers it',
    )
    const revoking = uncheckedListOf(await makeRevocationList(one, { revoked: [client] }))
    assert.equal(distrustOf(chain, { authorities, lists: [revoking, foreign] }, Date.now()), 'it was revoked')
  })

  it('does not stand in for the expired list of another authority', async () => {
    const [one, other] = await Promise.all([
      makeAuthority({ subject: 'CN=One' }),
      makeAuthority({ subject: 'CN=Other' }),
    ])
    const lists = await Promise.all([
      makeRevocationList(one, { untilDays: 2 }),
      makeRevocationList(other, { untilDays: 9 }),
    ])
    const trust = { authorities: [x509(one), x509(other)], lists: lists.map(uncheckedListOf) }
    assert.equal(Math.round((trustGoodUntilMs(trust).lists - Date.now()) / DAY_MS), 2)
    const leaf = x509(await makeCertificate({ subject: 'CN=c', issuer: one }))
    const chain = { leaf, intermediates: [] }
    assert.equal(distrustOf(chain, trust, Date.now() + DAY_MS), undefined)
    assert.equal(distrustOf(chain, trust, Date.now() + 3 * DAY_MS), LIST_OUT_OF_DATE)
  })
})

describe('with two lists of one authority', () => {
  const DAY_MS = 86_400_000
  const held = async () => {
    const ca = await makeAuthority({ subject: 'CN=Root' })
    const client = await makeCertificate({ subject: 'CN=c', issuer: ca })
    const distrust = (lists: readonly string[], nowMs = Date.now()) =>
      distrustOf(
        { leaf: x509(client), intermediates: [] },
        { authorities: [x509(ca)], lists: lists.map(listOf) },
        nowMs,
      )
    return { ca, client, distrust }
  }

  it('the newer one counts, as in a handshake: it may release a certificate from a hold', async () => {
    const { ca, client, distrust } = await held()
    const older = await makeRevocationList(ca, { revoked: [client], fromDays: -2 })
    const newer = await makeRevocationList(ca, { fromDays: -1 })
    for (const lists of [
      [older, newer],
      [newer, older],
    ])
      assert.equal(distrust(lists), undefined)
    const revoking = await makeRevocationList(ca, { revoked: [client], fromDays: -0.5 })
    assert.equal(distrust([older, newer, revoking]), 'it was revoked')
  })

  it('one that is not valid yet counts from its time on, and the older one again after the newer has ended', async () => {
    const { ca, client, distrust } = await held()
    const plain = await makeRevocationList(ca, { untilDays: 9 })
    const coming = await makeRevocationList(ca, { revoked: [client], fromDays: 2, untilDays: 4 })
    assert.equal(distrust([plain, coming]), undefined)
    assert.equal(distrust([plain, coming], Date.now() + 3 * DAY_MS), 'it was revoked')
    assert.equal(distrust([plain, coming], Date.now() + 5 * DAY_MS), undefined)
    assert.equal(distrust([plain], Date.now() + 10 * DAY_MS), LIST_OUT_OF_DATE)
  })

  it('a path holds only until another list takes over', async () => {
    const { ca, client } = await held()
    const lists = await Promise.all([
      makeRevocationList(ca, { untilDays: 9 }),
      makeRevocationList(ca, { fromDays: 2, untilDays: 4 }),
    ])
    const chain = { leaf: x509(client), intermediates: [] }
    const trust = { authorities: [x509(ca)], lists: lists.map(listOf) }
    for (const [day, until] of [
      [0, 2],
      [3, 4],
      [5, 9],
    ] as const) {
      const path = trustedPath(chain, trust, Date.now() + day * DAY_MS)
      assert.ok(typeof path !== 'string')
      assert.equal(Math.round((path.goodUntilMs - Date.now()) / DAY_MS), until)
    }
  })
})
