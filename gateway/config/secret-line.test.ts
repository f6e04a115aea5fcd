import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseAdminToken, parseIdempotencyKeys, parseUpstreamSecret } from './secret-line.ts'

const SECRET = 'x'.repeat(32)

test('the upstream secret is one line, with or without a line end after it', () => {
  for (const text of [SECRET, `${SECRET}\n`, `${SECRET}\r\n`]) {
    assert.deepEqual(parseUpstreamSecret('s', text), { value: SECRET })
  }
})

test('an upstream secret that is short, long or no field value is refused without being repeated', () => {
  for (const text of [
    '',
    '\n',
    'x'.repeat(31),
    'x'.repeat(257),
    `${SECRET} y`,
    `${SECRET}\nX-Auth-Subject: a`,
    `${SECRET}é`,
  ]) {
    const { faults } = parseUpstreamSecret('s', text)
    assert.equal(faults?.length, 1, JSON.stringify(text))
    assert.doesNotMatch(JSON.stringify(faults), /xxx/)
  }
})

test('the admin token has the same form, and its fault names it', () => {
  assert.deepEqual(parseAdminToken('t', `${SECRET}\n`), { value: SECRET })
  assert.match(parseAdminToken('t', 'short').faults?.[0]?.reason ?? '', /the token of the admin listener$/)
})

test('the keys of idempotency are lines, the one in force first, and no line may be anything else', () => {
  const [next, old] = ['n'.repeat(32), 'o'.repeat(256)]
  for (const text of [`${next}\n${old}`, `${next}\n${old}\n`, `${next}\r\n${old}\r\n`])
    assert.deepEqual(parseIdempotencyKeys('k', text), { value: [next, old] })
  for (const text of ['', `${next}\n\n${old}`, `${next}\nshort`, `\n${next}`, `${next}\n\n`]) {
    const { faults } = parseIdempotencyKeys('k', text)
    assert.match(faults?.[0]?.reason ?? '', /^must hold lines of 32 to 256/, JSON.stringify(text))
    assert.doesNotMatch(JSON.stringify(faults), /nnn|ooo/)
  }
})
