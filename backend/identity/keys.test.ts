import assert from 'node:assert/strict'
import { it } from 'node:test'
import { calculateJwkThumbprint } from 'jose'
import { onEachDatabase } from '../testing/databases.ts'
import { loadSigningKeys } from './keys.ts'

const NOW = new Date('2026-03-01T12:00:00Z')
const HOUR_MS = 60 * 60 * 1000

onEachDatabase('signing keys', (database) => {
  it('are made once, also by programs that start together, and found again', async () => {
    const loaded = await Promise.all(Array.from({ length: 4 }, () => loadSigningKeys(database(), () => NOW)))
    const again = await loadSigningKeys(database(), () => NOW)
    assert.equal(new Set([...loaded, again].map((keys) => keys.current.kid)).size, 1)
    assert.equal(again.published.keys.length, 1)
    assert.equal(again.published.keys[0]?.alg, 'ES256')
  })

  it('are made once too when the clock of the second program is behind', async () => {
    const first = await loadSigningKeys(database(), () => NOW)
    const behind = await loadSigningKeys(database(), () => new Date(NOW.getTime() - 1500))
    assert.equal(behind.current.kid, first.current.kid)
    assert.deepEqual(behind.published, first.published)
  })

  it('are named by their thumbprint (RFC 7638)', async () => {
    const { current, published } = await loadSigningKeys(database(), () => NOW)
    assert.equal(current.kid, await calculateJwkThumbprint({ ...published.keys[0] }))
  })

  it('overlap: an old key stays published beside the new one until its time is over', async () => {
    const { current } = await loadSigningKeys(database(), () => NOW)
    const later = new Date(NOW.getTime() + HOUR_MS)
    await database().query('UPDATE signing_keys SET signs_until = $2, published_until = $3 WHERE kid = $1', [
      current.kid,
      later,
      new Date(later.getTime() + HOUR_MS),
    ])
    const rotated = await loadSigningKeys(database(), () => later)
    assert.notEqual(rotated.current.kid, current.kid)
    assert.deepEqual(
      rotated.published.keys.map((key) => key.kid),
      [rotated.current.kid, current.kid],
    )
    const atLast = await loadSigningKeys(database(), () => new Date(later.getTime() + HOUR_MS))
    assert.deepEqual(
      atLast.published.keys.map((key) => key.kid),
      [rotated.current.kid],
    )
  })

  it('do not load when a stored key is of another kind', async () => {
    await database().query('UPDATE signing_keys SET public_jwk = \'{"kty":"RSA"}\'')
    await assert.rejects(
      loadSigningKeys(database(), () => NOW),
      /is not an elliptic curve key/,
    )
  })
})
