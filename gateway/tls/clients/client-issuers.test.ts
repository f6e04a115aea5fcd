import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import { type Authority, makeAuthority } from '../demo/throw-away-ca.ts'
import { areIndependent } from './client-issuers.ts'

const of = (...authorities: Authority[]) =>
  areIndependent(authorities.map(({ certPem }) => new X509Certificate(certPem)))

test('authorities are independent unless they stand in one line, each issued by the one above it', async () => {
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

test('an authority that stands in the file twice, or beside its renewal, counts once', async () => {
  const root = await makeAuthority({ subject: 'CN=Root' })
  const renewed = await makeAuthority({ subject: 'CN=Root', keys: root.keys })
  const stranger = await makeAuthority({ subject: 'CN=Stranger' })
  const between = await makeAuthority({ subject: 'CN=Between', issuer: root })
  assert.equal(of(root, renewed), false)
  assert.equal(of(root, root, stranger), true)
  assert.equal(of(root, renewed, stranger), true)
  assert.equal(of(root, renewed, stranger, stranger), true)
  assert.equal(of(root, renewed, between), false)
})

test('authorities that have issued one another, or the same third one, are independent', async () => {
  const one = await makeAuthority({ subject: 'CN=One' })
  const other = await makeAuthority({ subject: 'CN=Other' })
  const oneByOther = await makeAuthority({ subject: 'CN=One', keys: one.keys, issuer: other })
  const otherByOne = await makeAuthority({ subject: 'CN=Other', keys: other.keys, issuer: one })
  assert.equal(of(one, other, oneByOther), false)
  assert.equal(of(one, other, oneByOther, otherByOne), true)
  const third = await makeAuthority({ subject: 'CN=Third', issuer: one })
  const thirdByOther = await makeAuthority({ subject: 'CN=Third', keys: third.keys, issuer: other })
  assert.equal(of(one, other, third, thirdByOther), true)
})

test('authorities in one line are not independent, however long it is, and in any order', async () => {
  const root = await makeAuthority({ subject: 'CN=Root' })
  const upper = await makeAuthority({ subject: 'CN=Upper', issuer: root })
  const lower = await makeAuthority({ subject: 'CN=Lower', issuer: upper })
  assert.equal(of(root, upper, lower), false)
  assert.equal(of(lower, root, upper), false)
})
