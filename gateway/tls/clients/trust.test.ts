import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import { type Issued, makeAuthority, makeCertificate, makeRevocationList } from '../demo/throw-away-ca.ts'
import { readRevocationList } from './revocation-list.ts'
import { type SentChain, trustedPath, trustGoodUntilMs } from './trust.ts'

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

test('what the client sends along leads to an authority, and is none itself', async () => {
  const root = await makeAuthority({ subject: 'CN=Root' })
  const between = await makeAuthority({ subject: 'CN=Between', issuer: root })
  const leaf = x509(await makeCertificate({ subject: 'CN=c', issuer: between }))
  const chain = { leaf, intermediates: [x509(root), x509(between)] }
  const stranger = await makeAuthority({ subject: 'CN=Stranger' })
  assert.equal(distrustOf(chain, { authorities: [x509(root)], lists: [] }, Date.now()), undefined)
  assert.equal(distrustOf(chain, { authorities: [x509(stranger)], lists: [] }, Date.now()), UNKNOWN)
  assert.equal(distrustOf(chain, { authorities: [], lists: [] }, Date.now()), UNKNOWN)
})

test('of two ways to an authority one that holds is enough', async () => {
  const root = await makeAuthority({ subject: 'CN=Root' })
  const old = await makeAuthority({ subject: 'CN=Old', untilDays: 1 })
  const between = await makeAuthority({ subject: 'CN=Between', issuer: root, untilDays: 90 })
  const expiring = await makeAuthority({ subject: 'CN=Between', issuer: old, untilDays: 1 })
  const leaf = x509(await makeCertificate({ subject: 'CN=c', issuer: between }))
  const chain = { leaf, intermediates: [x509(expiring), x509(between)] }
  const trust = { authorities: [x509(old), x509(root)], lists: [] }
  assert.equal(distrustOf(chain, trust, Date.now() + 5 * 86_400_000), undefined)
})

test('trust is good until the first authority, or the newest list of one, expires', async () => {
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
