import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FairTurns } from './fair-turns.ts'

/** Work that takes a millisecond of this clock, so that a turn of the event loop has room for two. */
function harness() {
  let nowMs = 0
  const done: string[] = []
  const turns = new FairTurns(() => nowMs)
  const ask = (name: string, caller: { address: string; closed: boolean } = from('192.0.2.1')) =>
    turns.take(caller, () => {
      nowMs += 1
      done.push(name)
      return name
    })
  return { ask, done }
}

function from(address: string) {
  return { address, closed: false }
}

/** The next turn of the event loop. Called after `ask`, so that waiting work has its turn first. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

test('work is done at once until its time in this turn of the event loop is used up', async () => {
  const { ask, done } = harness()
  assert.equal(ask('a'), 'a')
  assert.equal(ask('b'), 'b')
  const third = ask('c')
  assert.ok(third instanceof Promise)
  assert.deepEqual(done, ['a', 'b'])
  assert.equal(await third, 'c')
})

test('a turn takes no more than its share of what waits, and what comes meanwhile does not overtake it', async () => {
  const { ask, done } = harness()
  for (const name of 'abcdef') void ask(name)
  await turn()
  assert.equal(done.join(''), 'abcd')
  void ask('g')
  assert.equal(done.join(''), 'abcd')
  await turn()
  assert.equal(done.join(''), 'abcdef')
  await turn()
  assert.equal(done.join(''), 'abcdefg')
})

test('a network with much to do delays another by one piece of work, whatever addresses it has', async () => {
  const { ask, done } = harness()
  for (let i = 0; i < 1000; i++) void ask('flood', from(`2001:db8::${i.toString(16)}`))
  const other = ask('other', from('192.0.2.9'))
  await other
  assert.deepEqual(done, ['flood', 'flood', 'flood', 'other'])
})

test('what nobody waits for any more is not done', async () => {
  const { ask, done } = harness()
  for (const name of 'ab') void ask(name)
  const callers = Array.from('cde', (name) => {
    const caller = from('192.0.2.1')
    void ask(name, caller)
    return caller
  })
  for (const caller of callers.slice(0, 2)) caller.closed = true
  await turn()
  assert.equal(done.join(''), 'abe')
  assert.equal(ask('f'), 'f', 'nothing waits')
})

test('who asked for work gets its error, at once or later', async () => {
  const turns = new FairTurns(() => performance.now())
  const failing = () => {
    throw new Error('no')
  }
  assert.throws(() => turns.take(from('192.0.2.1'), failing), /no/)
  const { ask } = harness()
  assert.equal(ask('a'), 'a')
  let nowMs = 0
  const slow = new FairTurns(() => (nowMs += 5))
  assert.equal(
    slow.take(from('192.0.2.1'), () => 'a'),
    'a',
  )
  await assert.rejects(async () => slow.take(from('192.0.2.1'), failing), /no/)
})
