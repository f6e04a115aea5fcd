import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ReplayMemory } from '../auth/replay.ts'
import { KeyBudget } from '../limits/windows/counters.ts'
import { fill } from './memory-fill.ts'
import { MEMORIES, type Memory } from './memory-rooms.ts'

/** A head of a request or a response; what is remembered is a small piece of it. */
const HEAD = 'x'.repeat(8_000)

/** The text as a parser gets it: a piece of something larger, which lives as long as the piece does. */
function cutOut(text: string): string {
  // A string of its own each time.
  const head = Buffer.from(`${HEAD}${text}${HEAD}`, 'latin1').toString('latin1')
  return head.slice(HEAD.length, HEAD.length + text.length)
}

/** Fills the memory and compares what each entry costs with its budget. @returns how many it holds */
async function fillWithin(memory: Memory, offered: number): Promise<number> {
  const { held, heapBytes } = await fill(memory, offered)
  const each = heapBytes / held
  assert.ok(each <= memory.budgetBytes, `${each} bytes each, of at most ${memory.budgetBytes}`)
  // Fewer bytes would mean that the entries are not there.
  assert.ok(each >= memory.budgetBytes / 3, `${each} bytes each`)
  return held
}

/** A memory with the default bound and so many entries. */
function replaysOf(count: number): ReplayMemory {
  const memory = new ReplayMemory({ lifetimeMs: 601_000, clock: Date.now })
  for (let i = 0; i < count; i++) memory.apply(String(i), Date.now(), true)
  return memory
}

describe('what the gateway remembers', () => {
  it('is a million callers at most, each in 280 bytes as long as it has few hits', async () => {
    const room = new KeyBudget()
    room.divide([{ size: 0, dropIdle() {} }])
    let callers = 0
    while (room.claim(callers)) callers++
    assert.equal(callers, 1_000_000)
    assert.equal(await fillWithin(MEMORIES.callers, 50_000), 50_000)
  })

  it('is never more than 9,000 bytes of a caller, however many hits there are', async () => {
    await fillWithin(MEMORIES.callersOf1000, 200)
    await fillWithin(MEMORIES.callersInSlices, 200)
  })

  it('is ten thousand tokens, however many come', async () => {
    assert.equal(await fillWithin(MEMORIES.tokens, 10_200), 10_000)
  })

  it('is half a million deliveries, or proofs', async () => {
    await fillWithin(MEMORIES.replays, 20_000)
    const memory = replaysOf(499_999)
    assert.equal(memory.take('the last that there is room for', 'the last that there is room for'), undefined)
    assert.equal(memory.take('one more', 'one more'), 'full')
    assert.equal(
      memory.take('the last that there is room for', 'the last that there is room for'),
      'replayed',
    )
    assert.equal(memory.size, 500_000)
  })

  it('is 65,536 throttled addresses', async () => {
    assert.equal(await fillWithin(MEMORIES.blocked, 66_000), 65_536)
  })

  it('is 160 bytes of a revoked session', async () => {
    await fillWithin(MEMORIES.revocations, 20_000)
  })

  for (const name of ['callers', 'tokens', 'blocked', 'revocations'] as const) {
    it(`keeps nothing else of the head that it came in: ${name}`, async () => {
      const memory: Memory = MEMORIES[name]
      const { held, heapBytes } = await fill(memory, 300, cutOut)
      assert.ok(heapBytes / held <= 2 * memory.budgetBytes, `${heapBytes / held} bytes each`)
    })
  }
})
