import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createContext, Script } from 'node:vm'
import fc from 'fast-check'
import { LONGER } from '../../e2e/long-runs.ts'
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

test('a short text has a time limit too where it can be divided in more ways than it has letters', () => {
  const optional = 'a?'.repeat(40)
  for (const [pattern, letters] of [
    ['^(?:a?){64}$', 18],
    ['^(?:(?:a?){20})*$', 12],
    [`^(?:${optional})*$`, 14],
    ['^(?:a|a|a|a|a|a|a|a|a|a|\\w)*$', 14],
    ['^(?:(?=(?:a|a|a|a|a|a)*!!)|a)*$', 14],
  ] as const) {
    assert.equal(isTooComplex(pattern, `${'a'.repeat(letters)}!`), true, pattern)
  }
})

test('an empty text has a time limit too where nothing can be taken in many ways', () => {
  for (const pattern of ['^(?:a?|b?){60}\\b', '^(?:(?:a?|b?){60})+(?=a)', '(?:a?|b?){60}(?=a)']) {
    assert.equal(isTooComplex(pattern, ''), true, pattern)
  }
})

test('a long text takes no time without a limit because of some optional parts', () => {
  const startMs = process.threadCpuUsage().user
  isTooComplex('^a?a?a?a?a?a?a?a?a?a?a?a*$', `${'a'.repeat(10_000_000)}!`)
  assert.ok(process.threadCpuUsage().user - startMs < 5_000_000)
})

/** Small patterns of letters, groups, alternatives and quantifiers. */
const { pattern: PATTERN } = fc.letrec<{ pattern: string; part: string; one: string }>((tie) => ({
  pattern: fc.oneof(
    { maxDepth: 4 },
    fc.array(tie('part'), { minLength: 1, maxLength: 3 }).map((parts) => parts.join('')),
    fc.array(tie('part'), { minLength: 2, maxLength: 3 }).map((parts) => parts.join('|')),
  ),
  part: fc
    .tuple(tie('one'), fc.constantFrom('', '', '?', '*', '+', '{2}', '{3,}', '{1,4}', '{0,9}', '{12}'))
    .map((both) => both.join('')),
  one: fc.oneof(
    { maxDepth: 4 },
    fc.constant('a'),
    tie('pattern').map((inside) => `(?:${inside})`),
  ),
}))

test('no pattern takes long for a text without a limit', () => {
  const slowest = { ms: 0, pattern: '' }
  fc.assert(
    fc.property(PATTERN, fc.integer({ min: 0, max: 40 }), (pattern, letters) => {
      const began = process.threadCpuUsage().user
      isTooComplex(`^(?:${pattern})$`, `${'a'.repeat(letters)}!`)
      const ms = (process.threadCpuUsage().user - began) / 1000
      if (ms > slowest.ms) Object.assign(slowest, { ms, pattern: `${pattern} ${letters}` })
    }),
    { numRuns: 40 * LONGER },
  )
  assert.ok(slowest.ms < 5000, JSON.stringify(slowest))
})

test('more choices than a number can say have a time limit', () => {
  const text = `${'a'.repeat(300)}!`
  assert.equal(isTooComplex('^((?:(?:[a-z]{1,10} ?){1,10},?){1,30})?$', text), true)
  assert.equal(isTooComplex('^(?:(?:(?:(?:\\w{1,30} ?){1,30},?){1,30};?){1,30}:?){1,30}$', text), true)
})
