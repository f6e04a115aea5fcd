import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { firstDayKey, randomDayKey, TicketKeys } from './ticket-keys.ts'

const DAY_MS = 86_400_000
const TODAY = Date.UTC(2026, 10, 23)
const SECRET = 'a secret of thirty-two characters'

describe('the keys of session tickets', () => {
  it('are the same for all that have the secret, in their length, on a day', () => {
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
    // Who gets the key of tomorrow.
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

  it('of processes without a secret are nobody else’s', () => {
    assert.notEqual(randomDayKey(TODAY).key, randomDayKey(TODAY).key)
  })
})
