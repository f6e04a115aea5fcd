import assert from 'node:assert/strict'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { it, type TestContext } from 'node:test'
import fc from 'fast-check'
import { openTable, RESPONSE, temporaryDirectory } from './key-table.test-support.ts'
import type { HeldKey } from './key-table.ts'

const LONG = { ...RESPONSE, body: undefined }
const KEYS = ['a', 'b', 'c'] as const
/** Prime, so that lines are cut in other places each time. */
const STRIDE_BYTES = 37
type Key = (typeof KEYS)[number]
type Step = { readonly key: Key; readonly does: 'send' | 'done' | 'too long' | 'free' | 'unknown' }
/** What a client with a key is told after a crash. */
type State = 'begun' | 'done' | 'unknown'

const step = fc.record({
  key: fc.constantFrom(...KEYS),
  does: fc.constantFrom('send', 'send', 'done', 'too long', 'free', 'unknown'),
}) as fc.Arbitrary<Step>

/** Bytes of the file with what they must mean to the next process. */
interface Moment {
  readonly bytes: number
  readonly states: Readonly<Record<Key, State>>
}

/** Carries the steps out, and notes after each what a crash must leave. */
function live(
  directory: string,
  steps: readonly Step[],
): { readonly file: string; readonly moments: Moment[] } {
  const { table, finish: end, begin } = openTable(directory)
  const file = join(directory, readdirSync(directory).sort()[0] as string)
  const held = new Map<Key, HeldKey>()
  const states: Record<Key, State> = { a: 'begun', b: 'begun', c: 'begun' }
  const moments: Moment[] = []
  const note = () => moments.push({ bytes: readFileSync(file).length, states: { ...states } })
  note()
  for (const { key, does } of steps) {
    const known = held.get(key)
    if (does === 'send') {
      const begun = begin(key)
      if (begun.outcome === 'begun') {
        held.set(key, begun.held)
        states[key] = 'unknown'
      }
    } else if (known !== undefined) {
      held.delete(key)
      const finish = does === 'done' ? RESPONSE : does === 'too long' ? LONG : does
      end(known, finish, () => {})
      if (does !== 'unknown') states[key] = does === 'free' ? 'begun' : 'done'
    }
    note()
  }
  table.close()
  return { file, moments }
}

function statesIn(t: TestContext, bytes: Uint8Array): Record<Key, string> {
  const directory = temporaryDirectory(t)
  writeFileSync(join(directory, 'keys-0000000001.log'), bytes)
  const { table, begin } = openTable(directory)
  const told = KEYS.map((key) => {
    const begun = begin(key)
    if (begun.outcome === 'done') assert.equal(begun.response.status, RESPONSE.status)
    return [key, begun.outcome]
  })
  table.close()
  return Object.fromEntries(told)
}

it('a crash at any byte of the file leaves each key done, free or unknown, as it was before that byte', (t) => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 6 }), (steps) => {
      const { file, moments } = live(temporaryDirectory(t), steps)
      const bytes = readFileSync(file)
      for (let length = 0; length <= bytes.length; length += STRIDE_BYTES) {
        const before = moments.findLast((moment) => moment.bytes <= length) ?? moments[0]
        assert.deepEqual(statesIn(t, bytes.subarray(0, length)), before?.states, `${length} bytes`)
      }
      for (const [index, { bytes: length, states }] of moments.entries()) {
        assert.deepEqual(statesIn(t, bytes.subarray(0, length)), states, `${length} bytes`)
        const before = moments.slice(0, index).findLast((moment) => moment.bytes < length)
        if (before !== undefined)
          assert.deepEqual(statesIn(t, bytes.subarray(0, length - 1)), before.states, `${length - 1} bytes`)
      }
    }),
    { numRuns: 10 },
  )
})

it('any torn end leaves each key as the whole lines before it say', (t) => {
  const tear = fc.oneof(
    fc.uint8Array({ maxLength: 100 }).map((one) => Buffer.from(one.map((byte) => (byte === 10 ? 0 : byte)))),
    fc.nat(5000).map((length) => Buffer.alloc(length)),
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 6 }), tear, (steps, torn) => {
      const { file, moments } = live(temporaryDirectory(t), steps)
      const bytes = readFileSync(file)
      for (const { bytes: length, states } of moments)
        assert.deepEqual(statesIn(t, Buffer.concat([bytes.subarray(0, length), torn])), states)
    }),
    { numRuns: 30 },
  )
})

it('a process after a second crash goes on with what both earlier processes left', (t) => {
  fc.assert(
    fc.property(fc.array(fc.array(step, { maxLength: 5 }), { minLength: 2, maxLength: 5 }), (runs) => {
      const directory = temporaryDirectory(t)
      const states: Record<Key, State> = { a: 'begun', b: 'begun', c: 'begun' }
      for (const steps of runs) {
        const { finish, begin } = openTable(directory)
        const held = new Map<Key, HeldKey>()
        for (const { key, does } of steps) {
          const known = held.get(key)
          if (does === 'send') {
            const begun = begin(key)
            assert.equal(begun.outcome, known === undefined ? states[key] : 'in_progress')
            if (begun.outcome !== 'begun') continue
            held.set(key, begun.held)
            states[key] = 'unknown'
          } else if (known !== undefined) {
            held.delete(key)
            finish(known, does === 'done' ? RESPONSE : does === 'too long' ? LONG : does, () => {})
            if (does !== 'unknown') states[key] = does === 'free' ? 'begun' : 'done'
          }
        }
        // The process is killed, so nothing is closed.
      }
    }),
    { numRuns: 30 },
  )
})
