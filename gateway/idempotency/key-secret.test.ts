import assert from 'node:assert/strict'
import { createHmac, hkdfSync } from 'node:crypto'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { ANY_CHARACTER } from '../e2e/any-character.ts'
import { secretsOf } from './key-secret.ts'

const LINE = 'a secret of at least 32 characters'
const [secret] = secretsOf([LINE])

describe('the names of callers, keys and contents', () => {
  const part = fc.oneof(
    fc.string({ unit: ANY_CHARACTER, maxLength: 300 }),
    fc.uint8Array({ maxLength: 300 }),
    fc.integer({ min: 5000, max: 40_000 }).map((length) => Buffer.alloc(length, length)),
  )

  it('are HMAC-SHA-256 of their parts, each with its length before it', () => {
    const key = Buffer.from(hkdfSync('sha256', LINE, '', 'countersign idempotency names', 32))
    fc.assert(
      fc.property(fc.array(part, { maxLength: 4 }), (parts) => {
        const hmac = createHmac('sha256', key)
        for (const one of parts) {
          const bytes = typeof one === 'string' ? Buffer.from(one) : one
          const length = Buffer.alloc(4)
          length.writeUInt32LE(bytes.length)
          hmac.update(length).update(bytes)
        }
        assert.equal(secret.nameOf(...parts), hmac.digest('base64url').slice(0, 22))
      }),
    )
  })

  it('differ under another secret, whose name begins each key', () => {
    const [other] = secretsOf([`${LINE}.`])
    assert.notEqual(other.name, secret.name)
    assert.notEqual(other.callerOf('a'), secret.callerOf('a'))
    assert.equal(other.idOf('caller', 'row', 'key').slice(0, 6), other.name)
  })
})

describe('what is sealed', () => {
  it('is opened with its salt, and with nothing else', () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.nat(), (text, at) => {
        const seal = secret.sealOf()
        const sealed = seal.seal(Buffer.from(text).toString('latin1'))
        const again = secret.sealOf(seal.salt)
        assert.deepEqual(again.open(sealed), Buffer.from(text))
        assert.equal(secret.sealOf().open(sealed), undefined)
        const bytes = Buffer.from(sealed, 'base64url')
        bytes[at % bytes.length] = (bytes[at % bytes.length] ?? 0) ^ 1
        assert.equal(again.open(bytes.toString('base64url')), undefined)
      }),
      { numRuns: 50 },
    )
  })

  it('never has the same nonce twice under one key', () => {
    const seal = secret.sealOf()
    const sealed = Array.from({ length: 100 }, () => seal.seal('same'))
    assert.equal(new Set(sealed.map((one) => one.slice(0, 16))).size, 100)
    assert.notEqual(secret.sealOf().salt, seal.salt)
  })
})
