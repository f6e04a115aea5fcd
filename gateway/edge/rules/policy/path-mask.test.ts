import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import { canonicalPath } from '../canonical-path.ts'
import { firstSegment, pathMask, pseudonym } from './path-mask.ts'

const KEY = 'k'.repeat(32)
const IBAN = 'DE89370400440532013000'
const HEX = createHmac('sha256', KEY).update(IBAN).digest('hex').slice(0, 16)

test('a masked parameter is shown as the keyed hash of its value, and the rest as it is', () => {
  assert.equal(pseudonym(IBAN, KEY), HEX)
  const mask = pathMask('/a/{iban}/x/{day}', ['iban'], KEY)
  assert.equal(mask(`/a/${IBAN}/x/2026`), `/a/{iban:${HEX}}/x/2026`)
  assert.equal(pathMask('/b/{of}.json', ['of'], KEY)(`/b/${IBAN}.json`), `/b/{of:${HEX}}.json`)
  assert.equal(pathMask('/b/{a}-{b}', ['b'], KEY)(`/b/x-${IBAN}`), `/b/x-{b:${HEX}}`)
})

test('one value has one pseudonym in every encoding that leads to the row', () => {
  const mask = pathMask('/a/{name}', ['name'], KEY)
  for (const written of ['/a/Jos%C3%A9%20X', '/a/Jos%c3%a9%20%58', '//a/./b/../%4aos%c3%a9%20X'])
    assert.equal(mask(canonicalPath(written) ?? ''), `/a/{name:${pseudonym('José X', KEY)}}`, written)
  // The 9 of the template is a digit of the octet A9.
  assert.doesNotMatch(pathMask('/a/{x}9{y}', ['x', 'y'], KEY)('/a/%C3%A9a'), /C3/)
})

test('a path that no row serves is shown by its first segment, or not at all if that may be masked', () => {
  assert.equal(firstSegment(`/a/${IBAN}`, ['/a/{iban}']), '/a')
  assert.equal(firstSegment('/', ['/a/{iban}']), '/')
  assert.equal(firstSegment(`/${IBAN}/x`, ['/{iban}']), '/')
  assert.equal(firstSegment('-', ['/a/{iban}']), '-')
  assert.equal(firstSegment(`/a-${IBAN}/x`, ['/a-{iban}/more']), '/', 'a part of the first segment')
  for (const between of ['%2F', '%252F', ';iban=', ',', ':', '%20'])
    assert.equal(firstSegment(`/a.b-c_${between}${IBAN}/x`, ['/a/{iban}']), '/a.b-c_', between)
})
