import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { firstDayKey, randomDayKey, TicketKeys } from './ticket-keys.ts'

const DAY_MS = 86_400_000
const TODAY = Date.UTC(2026, 10, 23)
const SECRET = 'a secret of thirty-two characters'

describe('the keys of session tickets', () => {
  it('are 48 bytes long and, on one day, the same for all that have the secret', () => {
    const [one, other] = [new TicketKeys(firstDayKey(SECRET)), new TicketKeys(firstDayKey(SECRET))]
    assert.equal(one.at(TODAY, 'c').length, 48)
    assert.deepEqual(one.at(TODAY, 'c'), other.at(TODAY + DAY_MS - 1, 'c'))
    assert.notDeepEqual(one.at(TODAY, 'c'), new TicketKeys(firstDayKey(`${SECRET}.`)).at(TODAY, 'c'))
  })

  it('differ from day to day, and by certificate', () => {
    const keys = new TicketKeys(firstDayKey(SECRET))
    const today = keys.at(TODAY, 'c')
    assert.notDeepEqual(keys.at(TODAY, 'd'), today)
    assert.notDeepEqual(keys.at(TODAY + DAY_MS, 'c'), today)
  })

  it('lead to those of later days and never back', () => {
    const keys = new TicketKeys(randomDayKey(TODAY))
    const today = keys.at(TODAY, 'c')
    const tomorrow = keys.dayKey(TODAY + DAY_MS)
    const later = keys.at(TODAY + 5 * DAY_MS, 'c')
    // The heir gets only the key of tomorrow.
    const heir = new TicketKeys(tomorrow)
    assert.equal(heir.dayKey(TODAY).day, tomorrow.day)
    assert.notDeepEqual(heir.at(TODAY, 'c'), today)
    assert.deepEqual(heir.at(TODAY + 5 * DAY_MS, 'c'), later)
  })

  it('stay those of the later day when the clock is put back', () => {
    const keys = new TicketKeys(randomDayKey(TODAY))
    const tomorrow = keys.at(TODAY + DAY_MS, 'c')
    assert.deepEqual(keys.at(TODAY, 'c'), tomorrow)
  })

  it('are new ones when the clock was days ahead and is put right, and change from day to day again', () => {
    const [keys, other] = [0, 0].map(() => new TicketKeys({ day: TODAY / DAY_MS, key: '5a'.repeat(32) }))
    const before = [keys!.at(TODAY, 'c'), keys!.at(TODAY + 3 * DAY_MS, 'c')]
    const [today, tomorrow] = [keys!.at(TODAY, 'c'), keys!.at(TODAY + DAY_MS, 'c')]
    const all = [...before, today, tomorrow].map((key) => key.toString('hex'))
    assert.equal(new Set(all).size, 4)
    assert.equal(keys!.dayKey(TODAY + DAY_MS).day, TODAY / DAY_MS + 1)
    // Another process saw the same times.
    for (const nowMs of [TODAY + 3 * DAY_MS, TODAY]) other!.dayKey(nowMs)
    assert.deepEqual(other!.at(TODAY, 'c'), today)
  })

  it('of a secret are those of the other gateways again when the clock was days ahead and is put right', () => {
    const keys = new TicketKeys(firstDayKey(SECRET), { ofSecret: true })
    keys.dayKey(TODAY + 3 * DAY_MS)
    assert.deepEqual(keys.at(TODAY, 'c'), new TicketKeys(firstDayKey(SECRET)).at(TODAY, 'c'))
  })

  it('go no further than to 2126, whatever year the clock says', () => {
    const last = Date.UTC(2126, 0, 1) / DAY_MS
    const keys = new TicketKeys(firstDayKey(SECRET), { ofSecret: true })
    for (const nowMs of [Date.UTC(2126, 0, 1), Date.UTC(9999, 0, 1), 8.64e15])
      assert.equal(keys.dayKey(nowMs).day, last)
    assert.equal(keys.dayKey(TODAY).day, TODAY / DAY_MS)
  })

  it('of processes without a secret are nobody else’s', () => {
    assert.notEqual(randomDayKey(TODAY).key, randomDayKey(TODAY).key)
  })
})
