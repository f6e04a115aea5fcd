import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { hashPassword, verifyPassword } from './passwords.ts'

describe('passwords', () => {
  it('are stored as Argon2id PHC strings with the parameters of OWASP, salted', async () => {
    const [first, second] = [await hashPassword('secret'), await hashPassword('secret')]
    assert.match(first, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/)
    assert.notEqual(first, second)
  })

  it('are verified against what is stored', async () => {
    const stored = await hashPassword('secret')
    assert.equal(await verifyPassword('secret', stored), true)
    assert.equal(await verifyPassword('Secret', stored), false)
    assert.equal(await verifyPassword('', stored), false)
  })

  it('are read with the parameters they were stored with', async () => {
    // From the reference implementation: argon2 -id with somesalt, 2 passes, 64 MiB, 1 lane.
    const stored = '$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc'
    assert.equal(await verifyPassword('password', stored), true)
    assert.equal(await verifyPassword('passwort', stored), false)
  })

  it('are the same however their letters are composed', async () => {
    assert.equal(await verifyPassword('cafe\u0301', await hashPassword('caf\u00e9')), true)
  })

  it('are refused when no hash is stored, after as much work as with one', async () => {
    const stored = await hashPassword('secret')
    const timed = async (against: string | undefined) => {
      const start = process.cpuUsage()
      assert.equal(await verifyPassword('other', against), false)
      const { user, system } = process.cpuUsage(start)
      return user + system
    }
    // The least of several rounds counts, because other work of this process only adds to it.
    let [known, unknown] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]
    for (let round = 0; round < 6; round++) {
      known = Math.min(known, await timed(stored))
      unknown = Math.min(unknown, await timed(undefined))
    }
    assert.ok(
      unknown > known / 2 && unknown < known * 2,
      `${known} µs of CPU with a stored hash, ${unknown} without`,
    )
  })

  it('wait in line, and are refused as busy when the line is full', async () => {
    const outcomes = await Promise.allSettled(Array.from({ length: 210 }, () => verifyPassword('x', CHEAP)))
    const refused = outcomes.filter((outcome) => outcome.status === 'rejected')
    assert.equal(refused.length, 8, 'of 210 two run and 200 wait')
    assert.ok(refused.every((outcome) => outcome.reason.code === 'busy'))
    assert.equal(await verifyPassword('x', CHEAP), false, 'the line empties')
  })

  it('cause an error when the stored text is no hash', async () => {
    await assert.rejects(verifyPassword('secret', 'plain'), /not an Argon2id PHC string/)
  })
})

/** A hash that costs next to nothing to compare with. */
const CHEAP = `$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$${'A'.repeat(43)}`
