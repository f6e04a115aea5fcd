import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sha256 } from '../keys/thumbprint.ts'
import { isBoundToCertificate, readBinding } from './binding.ts'

const [ONE, OTHER] = [sha256('one'), sha256('other')]

test('RFC 9449 section 6.1 and RFC 8705 section 3.1: cnf names a key, a certificate, or both', () => {
  assert.equal(readBinding(undefined), undefined)
  assert.deepEqual(readBinding({ jkt: ONE }), { jkt: ONE, thumbprint: undefined })
  assert.deepEqual(readBinding({ 'x5t#S256': ONE }), { jkt: undefined, thumbprint: ONE })
  assert.deepEqual(readBinding({ 'x5t#S256': ONE, jkt: OTHER }), { jkt: OTHER, thumbprint: ONE })
})

for (const [what, cnf, fault] of [
  ['no object', 'jkt', /is no object/],
  ['null', null, /is no object/],
  ['a list', [ONE], /is no object/],
  ['empty', {}, /is empty/],
  ['a confirmation by another member', { jwk: {} }, /"jwk", which cannot be confirmed/],
  ['a known member beside another', { jkt: ONE, kid: 'k' }, /"kid", which cannot be confirmed/],
  ['a member by another case', { JKT: ONE }, /"JKT", which cannot be confirmed/],
  ['a member of the prototype', JSON.parse('{"__proto__":{"jkt":"x"}}'), /"__proto__"/],
  ['a thumbprint that is too short', { jkt: ONE.slice(1) }, /cnf jkt .* is no thumbprint/],
  ['a thumbprint in hexadecimal', { 'x5t#S256': 'ab'.repeat(32) }, /cnf x5t#S256 .* is no thumbprint/],
  ['a thumbprint with stray bits', { jkt: `${ONE.slice(0, 42)}B` }, /cnf jkt .* is no thumbprint/],
  ['a thumbprint that is undefined', { jkt: undefined }, /cnf jkt .* is no thumbprint/],
  ['a thumbprint in a list', { jkt: [ONE] }, /cnf jkt .* is no thumbprint/],
] as const) {
  test(`cnf that is or has ${what} is a fault`, () => assert.match(String(readBinding(cnf)), fault))
}

test('RFC 8705 section 3: only the certificate whose thumbprint the token names will do', () => {
  assert.equal(isBoundToCertificate(ONE, ONE), true)
  assert.equal(isBoundToCertificate(ONE, OTHER), false)
  assert.equal(isBoundToCertificate(ONE, undefined), false)
  assert.equal(isBoundToCertificate(ONE, ''), false)
  assert.equal(isBoundToCertificate(ONE, `${ONE}=`), false)
  assert.equal(isBoundToCertificate('', ''), false)
})
