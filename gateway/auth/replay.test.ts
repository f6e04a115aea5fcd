import assert from 'node:assert/strict'
import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import { temporaryDirectory } from '../storage/temporary-directory.test-support.ts'
import { saidBeforeKill } from './killed-process.test-support.ts'
import { ReplayMemory } from './replay.ts'

const START_MS = 1_763_692_800_000
const LIFETIME_MS = 600_000

interface Place {
  readonly dataDir: string
  readonly file: string
  readonly faults: string[]
  readonly removals: string[]
  readonly time: { nowMs: number }
  open(maxEntries?: number): ReplayMemory
}

function place(t: TestContext): Place {
  const dataDir = join(temporaryDirectory(t), 'data')
  const faults: string[] = []
  const removals: string[] = []
  const time = { nowMs: START_MS }
  const store = {
    dataDir,
    name: 'webhooks',
    onFault: (cause: string) => faults.push(cause),
    onRemoved: (cause: string) => removals.push(cause),
  }
  const open = (maxEntries = 100) =>
    new ReplayMemory({ lifetimeMs: LIFETIME_MS, maxEntries, clock: () => time.nowMs, store })
  return { dataDir, file: join(dataDir, 'webhooks.ndjson'), faults, removals, time, open }
}

function inMemory(time: { nowMs: number }, maxEntries = 100): ReplayMemory {
  return new ReplayMemory({ lifetimeMs: LIFETIME_MS, maxEntries, clock: () => time.nowMs })
}

function withWallClock() {
  const time = { nowMs: START_MS, setBackMs: 0 }
  const wallClock = () => time.nowMs - time.setBackMs
  return {
    time,
    memory: new ReplayMemory({ lifetimeMs: LIFETIME_MS, clock: () => time.nowMs, wallClock }),
  }
}

test('a message passes once', () => {
  const memory = inMemory({ nowMs: START_MS })
  assert.equal(memory.take('a', 'a'), undefined)
  assert.equal(memory.take('a', 'a'), 'replayed')
  assert.equal(memory.take('b', 'b'), undefined)
  assert.equal(memory.size, 2)
})

test('a message is remembered for its whole lifetime and no longer', () => {
  const time = { nowMs: START_MS }
  const memory = inMemory(time)
  memory.take('a', 'a')
  time.nowMs = START_MS + LIFETIME_MS - 1
  assert.equal(memory.take('a', 'a'), 'replayed')
  time.nowMs = START_MS + LIFETIME_MS
  assert.equal(memory.take('a', 'a'), undefined)
  assert.equal(memory.take('a', 'a'), 'replayed')
})

test('a replay does not lengthen the time for which its message is remembered', () => {
  const time = { nowMs: START_MS }
  const memory = inMemory(time)
  memory.take('a', 'a')
  time.nowMs += LIFETIME_MS / 2
  assert.equal(memory.take('a', 'a'), 'replayed')
  time.nowMs = START_MS + LIFETIME_MS
  assert.equal(memory.take('a', 'a'), undefined)
})

test('a full memory refuses what is new and forgets nothing that counts', () => {
  const time = { nowMs: START_MS }
  const memory = inMemory(time, 3)
  for (const key of ['a', 'b', 'c']) assert.equal(memory.take(key, key), undefined)
  assert.equal(memory.take('d', 'd'), 'full')
  for (const key of ['a', 'b', 'c']) assert.equal(memory.take(key, key), 'replayed')
  assert.equal(memory.size, 3)
  time.nowMs += LIFETIME_MS
  assert.equal(memory.take('d', 'd'), undefined)
})

test('memory is bounded by time: old messages go as new ones come, a few at each', () => {
  const time = { nowMs: START_MS }
  const memory = inMemory(time, 1000)
  for (let count = 0; count < 700; count++) memory.take(`old-${count}`, `old-${count}`)
  time.nowMs += LIFETIME_MS
  for (let count = 0; count < 100; count++)
    assert.equal(memory.take(`new-${count}`, `new-${count}`), undefined)
  assert.equal(memory.size, 100)
})

test('a clock that is set back forgets nothing', () => {
  const time = { nowMs: START_MS }
  const memory = inMemory(time)
  memory.take('a', 'a')
  time.nowMs -= 3_600_000
  assert.equal(memory.take('a', 'a'), 'replayed')
  memory.take('b', 'b')
  assert.equal(memory.take('b', 'b'), 'replayed')
})

for (const setBackMs of [60_000, 3_600_000]) {
  test(`a message that stays fresh by a wall clock set back by ${setBackMs} ms is remembered for longer`, () => {
    const { memory, time } = withWallClock()
    memory.take('a', 'a')
    time.setBackMs = setBackMs
    time.nowMs += LIFETIME_MS
    assert.equal(memory.take('a', 'a'), 'replayed', 'when nothing came since')
    for (let count = 0; count < 20; count++) memory.take(`new-${count}`, `new-${count}`)
    time.nowMs += setBackMs - 1
    for (let count = 20; count < 40; count++) memory.take(`new-${count}`, `new-${count}`)
    assert.equal(memory.take('a', 'a'), 'replayed')
    time.nowMs += 1
    assert.equal(memory.take('a', 'a'), undefined)
    time.nowMs += LIFETIME_MS
    for (let count = 40; count < 60; count++) memory.take(`new-${count}`, `new-${count}`)
    assert.equal(memory.size, 20, 'what came later is held no longer')
  })
}

test('a wall clock that is set back by a year fills no memory', () => {
  const { memory, time } = withWallClock()
  for (let count = 0; count < 300; count++) memory.take(`old-${count}`, `old-${count}`)
  time.setBackMs = 365 * 86_400_000
  time.nowMs += LIFETIME_MS
  for (let count = 0; count < 100; count++) memory.take(`new-${count}`, `new-${count}`)
  assert.equal(memory.size, 100)
})

test('whatever comes, no message passes twice within a lifetime, and none is refused without cause', () => {
  const steps = fc.array(
    fc.record({ key: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'), afterMs: fc.nat({ max: 400_000 }) }),
    { maxLength: 60 },
  )
  fc.assert(
    fc.property(steps, fc.integer({ min: 1, max: 6 }), (taken, maxEntries) => {
      const time = { nowMs: START_MS }
      const memory = inMemory(time, maxEntries)
      const passed = new Map<string, number>()
      for (const { key, afterMs } of taken) {
        time.nowMs += afterMs
        const live = [...passed].filter(([, atMs]) => time.nowMs < atMs + LIFETIME_MS)
        const due = new Map(live).has(key) ? 'replayed' : live.length >= maxEntries ? 'full' : undefined
        assert.equal(memory.take(key, key), due)
        if (due === undefined) passed.set(key, time.nowMs)
      }
    }),
  )
})

test('a message is in the file when take returns, by its hash, readable by its owner alone', (t) => {
  const { open, file, faults } = place(t)
  open().take('key_acme\0msg_1\u00001614265330', 'key_acme\0msg_1\u00001614265330')
  const text = readFileSync(file, 'utf8')
  assert.match(
    text,
    /^\{"format":"webhooks","version":1\}\n\{"message":"[A-Za-z0-9_-]{43}","seenAtMs":1763692800000\}\n$/,
  )
  assert.equal(statSync(file).mode & 0o777, 0o600)
  assert.deepEqual(faults, [])
})

test('a memory without a store writes nothing and forgets with its process', (t) => {
  const { time, dataDir } = place(t)
  inMemory(time).take('a', 'a')
  assert.equal(inMemory(time).take('a', 'a'), undefined)
  assert.throws(() => readdirSync(dataDir), /ENOENT/)
})

test('a restart lets no replay pass: a message stays refused until its time is over while a gateway runs', (t) => {
  const { open, time } = place(t)
  open().take('a', 'a')
  time.nowMs += LIFETIME_MS - 1
  assert.equal(open().take('a', 'a'), 'replayed')
  time.nowMs += LIFETIME_MS
  const memory = open()
  assert.equal(memory.take('a', 'a'), 'replayed')
  time.nowMs += LIFETIME_MS
  assert.equal(memory.take('a', 'a'), undefined)
})

test('a clock that was wrong for one start lets no replay pass, not even of what came meanwhile', (t) => {
  const { open, time } = place(t)
  open().take('a', 'a')
  time.nowMs += 25 * 3_600_000
  open().take('b', 'b')
  time.nowMs -= 25 * 3_600_000
  const after = open()
  assert.equal(after.take('a', 'a'), 'replayed')
  assert.equal(after.take('b', 'b'), 'replayed')
})

test('a restart counts what is live against the bound', (t) => {
  const { open } = place(t)
  const before = open(2)
  before.take('a', 'a')
  before.take('b', 'b')
  const after = open(2)
  assert.equal(after.size, 2)
  assert.equal(after.take('c', 'c'), 'full')
})

test('the disk holds two lifetimes of messages at most, and every one that counts', (t) => {
  const { open, time, dataDir } = place(t)
  const memory = open()
  const atMs = new Map<string, number>()
  for (let minute = 0; minute < 103; minute++) {
    assert.equal(memory.take(`minute-${minute}`, `minute-${minute}`), undefined)
    atMs.set(`minute-${minute}`, time.nowMs)
    time.nowMs += 60_000
  }
  const files = readdirSync(dataDir).sort()
  assert.deepEqual(files, ['webhooks.ndjson', 'webhooks.old.ndjson'])
  const lines = files.flatMap((file) => readFileSync(join(dataDir, file), 'utf8').trim().split('\n'))
  assert.ok(lines.length <= 20, String(lines.length))
  const newestMs = atMs.get('minute-102') ?? 0
  const after = open(1000)
  for (const [key, seenAtMs] of atMs) {
    assert.equal(after.take(key, key), newestMs < seenAtMs + LIFETIME_MS ? 'replayed' : undefined, key)
  }
})

test('a torn last line and lines that are no messages are left out and reported', (t) => {
  const { open, file, dataDir, faults } = place(t)
  mkdirSync(dataDir)
  const short = JSON.stringify({ message: 'short', seenAtMs: START_MS })
  writeFileSync(file, `garbage\n${short}\n{"message":7,"seenAtMs":1}\n`)
  const memory = open()
  assert.equal(memory.size, 0)
  assert.deepEqual(faults, [`${file}: 3 line(s) that are no messages are left out, the first is line 1`])
  memory.take('a', 'a')
  appendFileSync(file, '{"message":"AAAA')
  const after = open()
  assert.equal(after.take('a', 'a'), 'replayed')
  assert.deepEqual(faults.slice(1), [`${file}: the last line was cut off and is left out`])
})

test('a file that is there and cannot be read stops the start', (t) => {
  const { open, file } = place(t)
  mkdirSync(file, { recursive: true })
  assert.throws(open, /webhooks\.ndjson: messages seen before cannot be read/)
})

test('a disk that refuses is reported, and a message that cannot be written is not let in until it can', async (t) => {
  const { open, dataDir, faults } = place(t)
  const memory = open()
  memory.take('before', 'before')
  await turn()
  renameSync(dataDir, `${dataDir}-away`)
  writeFileSync(dataDir, 'no directory')
  assert.equal(memory.take('a', 'a'), 'unwritable')
  assert.equal(memory.take('a', 'a'), 'unwritable')
  assert.equal(memory.take('before', 'before'), 'replayed')
  assert.equal(memory.isWritable, false)
  assert.match(faults[0] ?? '', /cannot append: .*ENOTDIR/)
  rmSync(dataDir)
  renameSync(`${dataDir}-away`, dataDir)
  memory.maintain()
  assert.equal(memory.isWritable, true)
  assert.equal(memory.take('a', 'a'), undefined)
  assert.equal(memory.take('a', 'a'), 'replayed')
  assert.equal(open().take('a', 'a'), 'replayed')
})

test('files that are removed under the gateway are begun anew with everything that is remembered', (t) => {
  const { open, dataDir, removals } = place(t)
  const memory = open()
  memory.take('a', 'a')
  memory.maintain()
  assert.deepEqual(removals, [])
  rmSync(dataDir, { recursive: true })
  memory.maintain()
  assert.match(removals[0] ?? '', /webhooks\.ndjson was removed/)
  memory.maintain()
  assert.equal(removals.length, 1)
  assert.equal(open().take('a', 'a'), 'replayed')
})

test('files that are removed after they were rotated are begun anew once', (t) => {
  const { open, time, dataDir, removals } = place(t)
  const memory = open()
  memory.take('a', 'a')
  time.nowMs += LIFETIME_MS
  memory.take('b', 'b')
  memory.maintain()
  rmSync(dataDir, { recursive: true })
  for (let seconds = 0; seconds < 3; seconds++) memory.maintain()
  assert.equal(removals.length, 1)
})

test('after kill -9 no message passes again if its take had returned', async (t) => {
  const { dataDir, open, time } = place(t)
  const returned = await saidBeforeKill(
    t,
    `
    import { ReplayMemory } from ${JSON.stringify(new URL('./replay.ts', import.meta.url).href)}
    const store = { dataDir: ${JSON.stringify(dataDir)}, name: 'webhooks', onFault: console.error }
    const memory = new ReplayMemory({ lifetimeMs: ${LIFETIME_MS}, clock: Date.now, store })
    for (let count = 0; ; count++) {
      memory.take('message-' + count, 'message-' + count)
      say('message-' + count)
    }`,
  )
  time.nowMs = Date.now()
  const after = open(1_000_000)
  assert.deepEqual(
    returned.filter((key) => after.take(key, key) !== 'replayed'),
    [],
  )
})

test('a sender that floods the memory is refused alone, and has its share again as its messages expire', () => {
  const time = { nowMs: START_MS }
  const memory = inMemory(time, 1000)
  let accepted = 0
  for (let count = 0; count < 2000; count++)
    if (memory.take(`flood-${count}`, 'flooding') === undefined) accepted++
  assert.equal(accepted, 750)
  assert.equal(memory.take('one more', 'flooding'), 'crowded')
  assert.equal(memory.take('flood-0', 'flooding'), 'replayed')
  for (let count = 0; count < 100; count++)
    for (const sender of ['a', 'b'])
      assert.equal(memory.take(`${sender}-${count}`, sender), count < 84 ? undefined : 'crowded')
  assert.equal(memory.take('late', 'newcomer'), undefined)
  time.nowMs += LIFETIME_MS
  // Expired messages fill nobody's share, though they are swept only when new ones come.
  for (let count = 0; count < 750; count++) assert.equal(memory.take(`later-${count}`, 'flooding'), undefined)
  assert.equal(memory.take('one more', 'flooding'), 'crowded')
  assert.equal(memory.size, 750)
})

test('the share of a sender counts what came before a restart', (t) => {
  const { open } = place(t)
  const before = open(1000)
  for (let count = 0; count < 750; count++) before.take(`m-${count}`, 'flooding')
  const after = open(1000)
  assert.equal(after.take('m', 'flooding'), 'crowded')
  assert.equal(after.take('m', 'other'), undefined)
  const next = new ReplayMemory({ lifetimeMs: LIFETIME_MS, maxEntries: 1000, clock: () => START_MS })
  for (const [digest, atMs] of after.entries()) next.apply(digest, atMs, true)
  assert.equal(next.take('m-0', 'flooding'), 'replayed')
  assert.equal(next.take('n', 'flooding'), 'crowded')
})
