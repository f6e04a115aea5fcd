import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, beforeEach, it } from 'node:test'
import { createLocalJWKSet, type JSONWebKeySet, jwtVerify } from 'jose'
import pino from 'pino'
import { sweep } from '../housekeeping.ts'
import { onEachDatabase } from '../testing/databases.ts'
import {
  askForRotation,
  isRotationAsked,
  keepKeys,
  PUBLISHED_AFTER_MS,
  PUBLISHED_AHEAD_MS,
  rotateSigningKeys,
} from './key-rotation.ts'
import { loadSigningKeys, type SigningKeys } from './keys.ts'
import { ACCESS_TOKEN_SECONDS, issueAccessToken } from './session-tokens.ts'

const START_MS = Date.parse('2026-03-01T12:00:00Z')
const MINUTE_MS = 60_000
const DAY_MS = 24 * 60 * MINUTE_MS
/** How often the gateway reads the key set. */
const GATEWAY_REFRESH_MS = 5 * MINUTE_MS

onEachDatabase('key rotation', (database) => {
  let nowMs = START_MS
  const clock = () => new Date(nowMs)
  const kids = async (keys: { published: { keys: { kid: string }[] } }) =>
    keys.published.keys.map(({ kid }) => kid)
  let directory: string
  before(() => {
    directory = mkdtempSync(join(tmpdir(), 'rotation-'))
  })
  after(() => rmSync(directory, { recursive: true }))
  beforeEach(async () => {
    nowMs = START_MS
    await database().query('DELETE FROM signing_keys')
  })

  it('publishes the new key, then uses it, then drops the old one, without being told again', async () => {
    const keys = await loadSigningKeys(database(), clock)
    const old = keys.current.kid
    const rotation = await rotateSigningKeys(database(), { now: clock() })
    assert.equal(rotation.outcome, 'started')
    await keys.refresh()
    const next = 'kid' in rotation ? rotation.kid : ''
    assert.deepEqual(await kids(keys), [old, next])
    nowMs += PUBLISHED_AHEAD_MS - 1
    assert.equal(keys.current.kid, old)
    nowMs += 1
    assert.equal(keys.current.kid, next, 'no process had to read anything')
    assert.deepEqual(await kids(keys), [next, old])
    nowMs += PUBLISHED_AFTER_MS - 1
    assert.deepEqual(await kids(keys), [next, old])
    nowMs += 1
    assert.deepEqual(await kids(keys), [next])
    await sweep(database(), clock())
    const left = await database().query<{ kid: string }>('SELECT kid FROM signing_keys')
    assert.deepEqual(left, [{ kid: next }], 'the private half is gone too')
  })

  it('is started once by several processes, and not again while it is under way', async () => {
    await loadSigningKeys(database(), clock)
    const rotations = await Promise.all(
      Array.from({ length: 5 }, () => rotateSigningKeys(database(), { now: clock() })),
    )
    assert.deepEqual(rotations.map(({ outcome }) => outcome).sort(), [...Array(4).fill('pending'), 'started'])
    assert.equal(new Set(rotations.map((rotation) => 'kid' in rotation && rotation.kid)).size, 1)
  })

  it('lets a verifier that reads the keys every 5 minutes verify every token in force', async () => {
    const issuing = [await loadSigningKeys(database(), clock), await loadSigningKeys(database(), clock)]
    let known = createLocalJWKSet(issuing[0]?.published as JSONWebKeySet)
    const inForce: { token: string; expiresAtMs: number }[] = []
    const signers = new Set<string>()
    for (let minute = 0; minute < 90; minute++) {
      if (minute === 7 || minute === 45) await rotateSigningKeys(database(), { now: clock() })
      // The processes read the keys at different times, and the verifier last.
      for (const [index, keys] of issuing.entries()) if (minute % 2 === index) await keys.refresh()
      if ((nowMs - START_MS) % GATEWAY_REFRESH_MS === 0) {
        known = createLocalJWKSet(issuing[minute % 2]?.published as JSONWebKeySet)
      }
      for (const keys of issuing) {
        const issuer = { publicUrl: 'https://api.example.com', keys, clock }
        const subject = { userId: 'user', sessionId: 'session', role: 'user' as const }
        signers.add(keys.current.kid)
        inForce.push({
          token: issueAccessToken(issuer, subject),
          expiresAtMs: nowMs + ACCESS_TOKEN_SECONDS * 1000,
        })
      }
      for (const { token, expiresAtMs } of inForce) {
        if (expiresAtMs > nowMs) await jwtVerify(token, known, { currentDate: clock() })
      }
      nowMs += MINUTE_MS
    }
    assert.equal(signers.size, 3)
  })

  it('happens by schedule when the newest key is old enough, and not before', async () => {
    const keys = await loadSigningKeys(database(), clock)
    const log: string[] = []
    const logger = pino({}, { write: (line) => void log.push(line) })
    const upkeep = {
      database: database(),
      keys,
      clock,
      logger,
      dataDirectory: directory,
      rotateAfterMs: 30 * DAY_MS,
    }
    const first = keys.current.kid
    nowMs += 30 * DAY_MS - 1
    await keepKeys(upkeep)
    assert.deepEqual(await kids(keys), [first])
    nowMs += 1
    await Promise.all([keepKeys(upkeep), keepKeys(upkeep)])
    assert.equal((await kids(keys)).length, 2)
    assert.equal(log.length, 1)
    nowMs += PUBLISHED_AHEAD_MS
    await keepKeys(upkeep)
    assert.notEqual(keys.current.kid, first)
    assert.equal((await kids(keys)).length, 2)
  })

  const upkeepOf = (keys: SigningKeys) => ({
    database: database(),
    keys,
    clock,
    logger: pino({ level: 'silent' }),
    dataDirectory: directory,
    rotateAfterMs: 30 * DAY_MS,
  })

  it('is asked for through a file where the database is open in another process', async () => {
    const keys = await loadSigningKeys(database(), clock)
    const upkeep = upkeepOf(keys)
    askForRotation(directory)
    assert.equal(isRotationAsked(directory), true)
    await keepKeys(upkeep)
    assert.equal(isRotationAsked(directory), false)
    assert.equal((await kids(keys)).length, 2)
    assert.equal(existsSync(join(directory, 'rotate-keys.request')), false)
  })

  it('replaces every key that others could read, even one that does not sign yet', async () => {
    const keys = await loadSigningKeys(database(), clock)
    const upkeep = upkeepOf(keys)
    await rotateSigningKeys(database(), { now: clock() })
    await keys.refresh()
    const exposed = await kids(keys)
    const marker = join(directory, 'keys-exposed')
    writeFileSync(marker, '')
    await keepKeys(upkeep)
    assert.deepEqual(await kids(keys), exposed)
    assert.equal(existsSync(marker), true)
    nowMs += PUBLISHED_AHEAD_MS
    await keepKeys(upkeep)
    assert.equal(existsSync(marker), false)
    nowMs += PUBLISHED_AHEAD_MS + PUBLISHED_AFTER_MS
    await keepKeys(upkeep)
    const left = await kids(keys)
    assert.equal(left.length, 1)
    assert.ok(!exposed.includes(left[0] ?? ''))
  })

  it('replaces a key that others could read, even when the clock was set back after the key was made', async () => {
    const keys = await loadSigningKeys(database(), clock)
    const exposed = keys.current.kid
    const marker = join(directory, 'keys-exposed')
    writeFileSync(marker, '')
    // The marker is older than the key by these clocks.
    utimesSync(marker, new Date(nowMs - 1), new Date(nowMs - 1))
    const upkeep = upkeepOf(keys)
    await keepKeys(upkeep)
    assert.equal(existsSync(marker), false)
    nowMs += PUBLISHED_AHEAD_MS
    assert.notEqual(keys.current.kid, exposed)
  })

  it('starts once more when the clock was set back past the last change', async () => {
    const keys = await loadSigningKeys(database(), clock)
    await rotateSigningKeys(database(), { now: clock() })
    nowMs += PUBLISHED_AHEAD_MS
    await keys.refresh()
    const before = await kids(keys)
    nowMs -= DAY_MS
    const rotation = await rotateSigningKeys(database(), { now: clock() })
    assert.equal(rotation.outcome, 'started')
    const { outcome, ...pending } = await rotateSigningKeys(database(), { now: clock() })
    assert.deepEqual({ ...rotation, outcome }, { outcome: 'pending', ...pending })
    await keys.refresh()
    nowMs += PUBLISHED_AHEAD_MS - 1
    assert.equal(keys.current.kid, before[0], 'the key in use goes on signing')
    nowMs += 1
    assert.equal(keys.current.kid, 'kid' in rotation && rotation.kid)
    nowMs += PUBLISHED_AFTER_MS
    assert.equal((await kids(keys)).length, 1, 'the keys before it end, whatever their times were')
    nowMs = START_MS
    assert.equal((await rotateSigningKeys(database(), { now: clock() })).outcome, 'started')
  })

  it('happens by schedule also when the clock was set back by years', async () => {
    const keys = await loadSigningKeys(database(), clock)
    const { kid } = keys.current
    nowMs -= 1000 * DAY_MS
    const upkeep = upkeepOf(keys)
    for (let look = 0; look < 2; look++) await keepKeys(upkeep)
    assert.equal(keys.current.kid, kid)
    assert.equal((await kids(keys)).length, 2)
    nowMs += PUBLISHED_AHEAD_MS
    assert.notEqual(keys.current.kid, kid)
  })

  it('leaves the present key in use when the clock is set back', async () => {
    const keys = await loadSigningKeys(database(), clock)
    const { kid } = keys.current
    nowMs -= DAY_MS
    assert.equal(keys.current.kid, kid)
  })
})
