import assert from 'node:assert/strict'
import { before, it } from 'node:test'
import { sweep } from '../housekeeping.ts'
import { onEachDatabase } from '../testing/databases.ts'
import { cheapHash } from '../testing/password-hash.ts'
import { startTestService, type TestService } from '../testing/service.ts'
import { originOf } from './attempt-origin.ts'
import { knownBrowser, markBrowser } from './known-browser.ts'
import { admitGuess, guessAt, noteRight, provePassword, signIn } from './sign-in.ts'
import {
  admitAttempt,
  FORGOTTEN_AFTER_MS,
  KNOWN_FOR_MS,
  noteSuccess,
  takeBackAttempt,
} from './sign-in-throttle.ts'

const SECOND_MS = 1000
const DAY_MS = 24 * 60 * 60 * SECOND_MS

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

  it('allows fewer than 115 guesses a day', async () => {
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

  it('lets five attempts through when the clocks of backends differ', async () => {
    const nowMs = service.now().getTime()
    for (const lateMs of [0, 3, 900, 1, 0]) {
      const { outcome } = await admitAttempt(database(), 'skew', new Date(nowMs - lateMs))
      assert.equal(outcome, 'go')
    }
    assert.equal((await admit('skew')).outcome, 'wait')
  })

  it('forgets at a success, and a day after the last failure', async () => {
    for (let attempt = 0; attempt < 5; attempt++) await admit('c')
    await noteSuccess(database(), 'c', service.now())
    for (let attempt = 0; attempt < 5; attempt++) assert.equal((await admit('c')).outcome, 'go')
    assert.equal((await admit('c')).outcome, 'wait')
    service.advance(FORGOTTEN_AFTER_MS)
    for (let attempt = 0; attempt < 5; attempt++) assert.equal((await admit('c')).outcome, 'go')
    service.advance(KNOWN_FOR_MS)
    await sweep(database(), service.now())
    assert.deepEqual(await database().query('SELECT key FROM sign_in_attempts'), [])
  })

  it('takes back a guess that could not be checked', async () => {
    const user = await service.addUser({ passwordHash: 'no hash' })
    const attempt = { email: user.email, password: 'right', origin: '192.0.2.7' }
    const own = { userId: user.id, password: 'right', origin: '192.0.2.7' }
    const waits = async () =>
      (await database().query('SELECT 1 AS one FROM sign_in_attempts WHERE next_at > $1', [service.now()]))
        .length
    const waitsBefore = await waits()
    for (let n = 0; n < 6; n++) {
      await assert.rejects(signIn(database(), attempt, service.now()), /PHC string/)
      await assert.rejects(provePassword(database(), own, service.now()), /PHC string/)
    }
    assert.equal(await waits(), waitsBefore, 'nor does it count among the guesses of strangers')
    await database().query('UPDATE users SET password_hash = $2 WHERE id = $1', [user.id, cheapHash('right')])
    assert.equal((await signIn(database(), attempt, service.now())).outcome, 'signed_in')
  })

  it('leaves the wait of a guess that was made after one that could not be checked', async () => {
    const key = 'not-checked'
    for (let attempt = 0; attempt < 5; attempt++) await admit(key)
    service.advance(SECOND_MS)
    const unchecked = service.now()
    assert.equal((await admit(key)).outcome, 'go')
    service.advance(2 * SECOND_MS)
    assert.equal((await admit(key)).outcome, 'go')
    await takeBackAttempt(database(), key, unchecked)
    assert.equal((await admit(key)).outcome, 'wait')
  })

  it('counts sign-ins of page and API together, treats unknown addresses alike, and stores none', async () => {
    const owner = await service.addUser({
      email: 'owner@example.com',
      passwordHash: cheapHash('right'),
    })
    for (const email of [owner.email, 'nobody@example.com']) {
      for (let attempt = 0; attempt < 4; attempt++) {
        const payload = { email: email.toUpperCase(), password: 'wrong' }
        assert.equal((await service.send({ method: 'POST', url: '/api/login', payload })).status, 401)
      }
      const attempt = { email, password: 'wrong', origin: '127.0.0.1' }
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

  const addOwner = async () => {
    const owner = await service.addUser({ passwordHash: ownersHash })
    const tries = (origin: string, password: string, knownBrowser?: string) =>
      signIn(database(), { email: owner.email, password, origin, knownBrowser }, service.now())
    return { email: owner.email, tries }
  }
  const ownersHash = cheapHash('right')

  it('does not make an owner with a known browser wait', async () => {
    const { tries } = await addOwner()
    for (let attempt = 0; attempt < 5; attempt++) await tries('192.0.2.1', 'wrong')
    assert.equal((await tries('192.0.2.1', 'right')).outcome, 'throttled')
    assert.equal((await tries('192.0.2.1', 'right', 'browser')).outcome, 'signed_in')
    for (let attempt = 0; attempt < 5; attempt++) await tries('192.0.2.1', 'wrong', 'browser')
    assert.equal((await tries('192.0.2.1', 'right', 'browser')).outcome, 'throttled', 'it has its own')
  })

  /** Counts a guess as the sign-in does, without hashing a password. */
  const guess = async (account: string, origin: string) =>
    admitGuess(database(), await guessAt(database(), { account, origin }, service.now()), service.now())
  const succeed = async (account: string, origin: string) => {
    const right = await guessAt(database(), { account, origin }, service.now())
    const admission = await admitGuess(database(), right, service.now())
    if (admission.outcome === 'go') await noteRight(database(), right, service.now())
    return admission.outcome
  }

  it('keeps nobody waiting for what another address does, however long it goes on', async () => {
    const endMs = service.now().getTime() + 1.25 * DAY_MS
    let waitSeconds = 0
    while (service.now().getTime() < endMs) {
      const admission = await guess('steady', '192.0.2.66')
      if (admission.outcome === 'wait') waitSeconds = admission.retryAfterSeconds
      // Once the wait is 15 minutes, the loop need not ask for its length.
      if (admission.outcome === 'wait' || waitSeconds === 900) service.advance(waitSeconds * SECOND_MS)
    }
    assert.equal(await succeed('steady', '198.51.100.7'), 'go')
  })

  it('bounds what many addresses guess together, and lets the owner in from a known address', async () => {
    assert.equal(await succeed('many', 'home'), 'go')
    let guesses = 0
    const endMs = service.now().getTime() + DAY_MS
    for (let stranger = 0; service.now().getTime() < endMs; stranger++) {
      const admission = await guess('many', `stranger ${stranger}`)
      if (admission.outcome === 'go') guesses++
      else service.advance(admission.retryAfterSeconds * SECOND_MS)
    }
    assert.ok(guesses > 380 && guesses < 400, `${guesses} guesses`)
    await guess('many', 'the last of them')
    assert.equal(await succeed('many', 'cafe'), 'wait')
    assert.equal((await guess('many', 'home')).outcome, 'go')
    assert.equal(await succeed('many', 'home'), 'go')
    service.advance(300 * SECOND_MS)
    for (let cafe = 0; cafe < 3; cafe++)
      assert.equal(await succeed('many', `cafe ${cafe}`), 'go', 'a right one is no guess')
    service.advance(KNOWN_FOR_MS)
    for (let stranger = 0; stranger < 100; stranger++) await guess('many', `another ${stranger}`)
    assert.equal(await succeed('many', 'home'), 'wait', 'after a month it is a stranger too')
  })

  it('makes nobody wait for what was counted before the clock was set back', async () => {
    service.advance(KNOWN_FOR_MS)
    assert.equal(await succeed('set back', 'office'), 'go')
    for (let attempt = 0; attempt < 6; attempt++) await guess('set back', 'home')
    for (let stranger = 0; stranger < 100; stranger++) await guess('set back', `stranger ${stranger}`)
    assert.equal((await guess('set back', 'cafe')).outcome, 'wait')
    service.advance(-KNOWN_FOR_MS)
    assert.equal(await succeed('set back', 'cafe'), 'go')
    assert.equal(await succeed('set back', 'home'), 'go')
    for (let attempt = 0; attempt < 5; attempt++) await guess('set back', 'bar')
    assert.equal((await guess('set back', 'bar')).outcome, 'wait', 'it counts again')
  })

  it('admits only 100 of many strangers at the same moment', async () => {
    const admissions = await Promise.all(
      Array.from({ length: 130 }, (_, stranger) => guess('at once', `stranger ${stranger}`)),
    )
    assert.equal(admissions.filter(({ outcome }) => outcome === 'go').length, 100)
  })

  it('counts by the address that the gateway saw, whatever else the client claims', async () => {
    const { email } = await addOwner()
    const login = (forwarded: string, password: string) =>
      service.send({
        method: 'POST',
        url: '/api/login',
        payload: { email, password },
        headers: { 'x-forwarded-for': forwarded },
      })
    for (let attempt = 0; attempt < 5; attempt++) {
      assert.equal((await login('2001:db8:0:1::66', 'wrong')).status, 401)
    }
    assert.equal((await login('2001:db8:0:1:2:3:4:5', 'right')).status, 429, 'the same /64')
    assert.equal((await login('2001:db8:0:2::66', 'right')).status, 200)
  })

  it('takes a client behind a trusted proxy for one origin, whatever X-Forwarded-For it sends', async () => {
    const { email } = await addOwner()
    const login = (front: string, realIp: string, password: string) =>
      service.send({
        method: 'POST',
        url: '/api/login',
        payload: { email, password },
        headers: { 'x-forwarded-for': `${front}, ${realIp}, 10.0.0.1`, 'x-real-ip': realIp },
      })
    for (let attempt = 0; attempt < 5; attempt++) {
      assert.equal((await login(`192.0.2.${attempt}`, '203.0.113.7', 'wrong')).status, 401)
    }
    assert.equal((await login('192.0.2.99', '203.0.113.7', 'wrong')).status, 429)
    assert.equal((await login('192.0.2.99', '198.51.100.9', 'right')).status, 200)
  })

  it('takes the address that the gateway names as origin, and the /64 of an IPv6 address', () => {
    const origin = (forwarded: string | undefined, realIp?: string) =>
      originOf({ headers: { 'x-forwarded-for': forwarded, 'x-real-ip': realIp }, ip: '127.0.0.1' })
    assert.equal(origin(undefined), '127.0.0.1')
    assert.equal(origin('192.0.2.1'), '192.0.2.1')
    assert.equal(origin('10.9.9.9, 192.0.2.1, 10.0.0.1', '192.0.2.1'), '192.0.2.1')
    assert.equal(origin('2001:db8::1'), '2001:db8:0:0::/64')
    assert.equal(origin('2001:0DB8:0:0:1:2:3:4'), '2001:db8:0:0::/64')
    assert.equal(origin('::1'), '0:0:0:0::/64')
    assert.equal(origin('fe80::1%eth0'), 'fe80:0:0:0::/64')
    assert.equal(origin('10.0.0.1', '64:ff9b::192.0.2.1'), '64:ff9b:0:0::/64')
  })

  it('knows a browser only by our cookie for this e-mail address', () => {
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
