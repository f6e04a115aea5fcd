import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import { type Authority, makeAuthority } from '../demo/throw-away-ca.ts'
import { areIndependent } from './client-issuers.ts'

const of = (...authorities: Authority[]) =>
  areIndependent(authorities.map(({ certPem }) => new X509Certificate(certPem)))

test('authorities are several when more than one of them has issued none of the others', async () => {
  const root = await makeAuthority({ subject: 'CN=Root' })
  const between = await makeAuthority({ subject: 'CN=Between', issuer: root })
  const sister = await makeAuthority({ subject: 'CN=Sister', issuer: root })
  const stranger = await makeAuthority({ subject: 'CN=Stranger' })
  const namesake = await makeAuthority({ subject: 'CN=Root' })
  assert.equal(of(), false)
  assert.equal(of(root), false)
  assert.equal(of(root, root), false)
  assert.equal(of(between, root), false)
  assert.equal(of(between, sister, root), true)
  assert.equal(of(root, stranger), true)
  assert.equal(of(root, between, stranger), true)
  assert.equal(of(root, namesake), true)
})
