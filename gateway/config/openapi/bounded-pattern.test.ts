import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createContext, Script } from 'node:vm'
import { BoundedPattern, beginSteps, TooComplex } from './bounded-pattern.ts'

/** What breaks off a match that would never end. */
const NEVER_MS = 60_000

/** Whether a text is too complex for a pattern; fails where the match would go on for ever. */
function isTooComplex(pattern: string, text: string): boolean {
  const match = () => {
    beginSteps()
    try {
      new BoundedPattern(pattern, 'u').test(text)
      return false
    } catch (error) {
      assert.ok(error instanceof TooComplex)
      return true
    }
  }
  return new Script('match()').runInContext(createContext({ match }), { timeout: NEVER_MS })
}

const LONG = `${'a'.repeat(200)}!`

test('a repetition with an end inside one without has a time limit', () => {
  for (const pattern of [
    '^(?:\\w{1,20}\\s?)+$',
    "^(?:[A-Za-z]{1,20}[ '-]?)+$",
    '^(?:\\w\\w?)+$',
    '^(?:a{1,2})*$',
    '^(?:[a-z]{1,20} ?){1,50}$',
    '^(?:\\w(?:\\w\\w)?){2,}$',
    '(?:a{1,2}?)*!!',
  ]) {
    assert.equal(isTooComplex(pattern, LONG), true, pattern)
  }
  assert.equal(isTooComplex('^(?:\\d{1,3}\\.?)*$', `${'1'.repeat(200)}!`), true)
})

test('more choices than a number can say have a time limit', () => {
  const text = `${'a'.repeat(300)}!`
  assert.equal(isTooComplex('^((?:(?:[a-z]{1,10} ?){1,10},?){1,30})?$', text), true)
  assert.equal(isTooComplex('^(?:(?:(?:(?:\\w{1,30} ?){1,30},?){1,30};?){1,30}:?){1,30}$', text), true)
})
