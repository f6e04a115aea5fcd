import assert from 'node:assert/strict'
import { before, it } from 'node:test'
import { sweep } from '../housekeeping.ts'
import { onEachDatabase } from '../testing/databases.ts'
import { startTestService, type TestService } from '../testing/service.ts'
import { knownBrowser, markBrowser } from './known-browser.ts'
import { hashPassword } from './passwords.ts'
import { signIn } from './sign-in.ts'
import { admitAttempt, FORGOTTEN_AFTER_MS, forgetFailures } from './sign-in-throttle.ts'

const SECOND_MS = 1000

onEachDatabase('the throttle of sign-ins', (database) => {
  let service: TestService
  before(async () => {
    service = await startTestService(database())
  })

  const admit = (key: string) => admitAttempt(database(), key, service.now())

  it('lets five attempts through, then doubles the wait up to 15 minutes', async () => {
    for (let attempt = 0; attempt < 5; attempt++) assert.equal((await admit('a')).outcome, 'go')
    const waits: number[] = []
    for (let attempt = 0; attempt < 13; attempt++) {
      const admission = await admit('a')
      assert.ok(admission.outcome === 'wait')
      waits.push(admission.retryAfterSeconds)
      assert.deepEqual(await admit('a'), admission, 'asking again makes the wait no longer')
      service.advance(admission.retryAfterSeconds * SECOND_MS - 1)
      assert.equal((await admit('a')).outcome, 'wait')
      service.advance(1)
      assert.equal((await admit('a')).outcome, 'go')
    }
    assert.deepEqual(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900, 900])
    assert.equal((await admit('b')).outcome, 'go', 'nobody else waits')
  })

  it('allows at most a hundred and some guesses on a day', async () => {
    const endMs = service.now().getTime() + 24 * 60 * 60 * SECOND_MS
    let guesses = 0
    while (service.now().getTime() < endMs) {
      const admission = await admit('day')
      if (admission.outcome === 'go') guesses++
      else service.advance(admission.retryAfterSeconds * SECOND_MS)
    }
    assert.ok(guesses < 115, `${guesses} guesses`)
  })

  it('admits no more than five of many attempts at the same moment', async () => {
    const admissions = await Promise.all(Array.from({ length: 20 }, () => admit('crowd')))
    assert.equal(admissions.filter(({ outcome }) => outcome === 'go').length, 5)
  })

  it('forgets at a success, and a day after the last failure', async () => {
    for (let attempt = 0; attempt < 5; attempt++) await admit('c')
    await forgetFailures(database(), 'c')
    for (let attempt = 0; attempt < 5; attempt++) assert.equal((await admit('c')).outcome, 'go')
    assert.equal((await admit('c')).outcome, 'wait')
    service.advance(FORGOTTEN_AFTER_MS)
    for (let attempt = 0; attempt < 5; attempt++) assert.equal((await admit('c')).outcome, 'go')
    service.advance(FORGOTTEN_AFTER_MS)
    await sweep(database(), service.now())
    assert.deepEqual(await database().query('SELECT key FROM sign_in_attempts'), [])
  })

  it('is one for every door, the same for an address that nobody has, and stores no address', async () => {
    const owner = await service.addUser({
      email: 'owner@example.com',
      passwordHash: await hashPassword('right'),
    })
    for (const email of [owner.email, 'nobody@example.com']) {
      for (let attempt = 0; attempt < 4; attempt++) {
        const payload = { email: email.toUpperCase(), password: 'wrong' }
        assert.equal((await service.send({ method: 'POST', url: '/api/login', payload })).status, 401)
      }
      const attempt = { email, password: 'wrong' }
      assert.equal((await signIn(database(), attempt, service.now())).outcome, 'wrong')
      const throttled = await service.send({
        method: 'POST',
        url: '/api/login',
        payload: { email, password: 'right' },
      })
      assert.equal(throttled.status, 429)
      assert.equal(throttled.body.code, 'too_many_attempts')
      assert.equal(throttled.headers['retry-after'], '1')
    }
    const rows = await database().query('SELECT * FROM sign_in_attempts')
    assert.doesNotMatch(JSON.stringify(rows), /example/)
  })

  it('does not keep the owner waiting who comes with a known browser', async () => {
    const password = 'right'
    const owner = await service.addUser({ passwordHash: await hashPassword(password) })
    for (let attempt = 0; attempt < 5; attempt++) {
      await signIn(database(), { email: owner.email, password: 'wrong' }, service.now())
    }
    const stranger = await signIn(database(), { email: owner.email, password }, service.now())
    assert.equal(stranger.outcome, 'throttled')
    const known = { email: owner.email, password, knownBrowser: 'browser' }
    assert.equal((await signIn(database(), known, service.now())).outcome, 'signed_in')
    for (let attempt = 0; attempt < 5; attempt++) {
      await signIn(database(), { ...known, password: 'wrong' }, service.now())
    }
    assert.equal((await signIn(database(), known, service.now())).outcome, 'throttled', 'it has its own')
  })

  it('knows a browser only by a cookie of ours for that very address', () => {
    const secret = Buffer.alloc(32, 1)
    const cookie = markBrowser(secret, 'Alice@example.com')
    assert.equal(knownBrowser(secret, cookie, 'alice@example.com'), cookie.split('.')[0])
    assert.equal(knownBrowser(secret, cookie, 'bob@example.com'), undefined)
    assert.equal(knownBrowser(Buffer.alloc(32, 2), cookie, 'alice@example.com'), undefined)
    for (const forged of [undefined, '', '.', `${cookie}.x`, `x${cookie}`, cookie.slice(0, -1)]) {
      assert.equal(knownBrowser(secret, forged, 'alice@example.com'), undefined)
    }
  })
})
