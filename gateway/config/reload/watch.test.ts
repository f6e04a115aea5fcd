import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, renameSync, symlinkSync, unlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { promisify } from 'node:util'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import { FileWatch, type WatchOptions } from './watch.ts'

const BY_HAND_MS = 3_600_000

interface Seen {
  readonly texts: string[]
  readonly errors: string[]
  readonly watch: FileWatch
}

/** A watch that looks only when it is told to. */
function watched(t: TestContext, file: string, options: Partial<WatchOptions> = {}): Seen {
  const texts: string[] = []
  const errors: string[] = []
  const watch = new FileWatch(file, {
    intervalMs: BY_HAND_MS,
    onChange: (text) => texts.push(text),
    onGone: (error) => errors.push(error.message),
    ...options,
  })
  t.after(() => watch.stop())
  return { texts, errors, watch }
}

test('the first look tells the content, unless the caller knows it already', async (t) => {
  const file = join(temporaryDirectory(t), 'a.json')
  writeFileSync(file, 'one')
  const ignorant = watched(t, file)
  const informed = watched(t, file, { known: 'one' })
  const outdated = watched(t, file, { known: 'zero' })
  for (const { watch } of [ignorant, informed, outdated]) await watch.check()
  assert.deepEqual([ignorant.texts, informed.texts, outdated.texts], [['one'], [], ['one']])
})

test('a file that is written in place is seen, every time', async (t) => {
  const file = join(temporaryDirectory(t), 'a.json')
  writeFileSync(file, '0')
  const { texts, watch } = watched(t, file, { known: '0' })
  for (const text of ['1', '2', 'three']) {
    writeFileSync(file, text)
    await watch.check()
  }
  assert.deepEqual(texts, ['1', '2', 'three'])
})

test('a file that another is renamed over is seen, every time', async (t) => {
  const folder = temporaryDirectory(t)
  const file = join(folder, 'a.json')
  writeFileSync(file, '0')
  const { texts, watch } = watched(t, file, { known: '0' })
  for (const text of ['1', '2', '3']) {
    writeFileSync(`${file}.new`, text)
    renameSync(`${file}.new`, file)
    await watch.check()
  }
  assert.deepEqual(texts, ['1', '2', '3'])
})

test('a ConfigMap whose ..data link is swapped is seen, every time', async (t) => {
  const folder = temporaryDirectory(t)
  const version = (name: string, text: string) => {
    mkdirSync(join(folder, name))
    writeFileSync(join(folder, name, 'a.json'), text)
    symlinkSync(name, join(folder, '..data_tmp'))
    renameSync(join(folder, '..data_tmp'), join(folder, '..data'))
  }
  version('..v0', '0')
  symlinkSync('..data/a.json', join(folder, 'a.json'))
  const { texts, watch } = watched(t, join(folder, 'a.json'), { known: '0' })
  for (const text of ['1', '2', '3']) {
    version(`..v${text}`, text)
    await watch.check()
  }
  assert.deepEqual(texts, ['1', '2', '3'])
})

test("an edit of a symlink's target in another directory is seen", async (t) => {
  const target = join(temporaryDirectory(t), 'target.json')
  const file = join(temporaryDirectory(t), 'a.json')
  writeFileSync(target, '0')
  symlinkSync(target, file)
  const { texts, watch } = watched(t, file, { known: '0' })
  await watch.check()
  writeFileSync(target, '1')
  await watch.check()
  writeFileSync(`${target}.new`, '2')
  renameSync(`${target}.new`, target)
  await watch.check()
  assert.deepEqual(texts, ['1', '2'])
})

test('a touched file has not changed', async (t) => {
  const file = join(temporaryDirectory(t), 'a.json')
  writeFileSync(file, '0')
  const { texts, watch } = watched(t, file, { known: '0' })
  await watch.check()
  utimesSync(file, 1, 1)
  await watch.check()
  writeFileSync(file, '0')
  await watch.check()
  assert.deepEqual(texts, [])
})

test('a second write that the clock of file times cannot tell from the first is seen', async (t) => {
  const file = join(temporaryDirectory(t), 'a.json')
  writeFileSync(file, '0')
  const same = await stat(file, { bigint: true })
  const disk = { stat: async () => same, read: (path: string) => readFile(path, 'utf8') }
  const { texts, watch } = watched(t, file, { disk, known: '0' })
  await watch.check()
  writeFileSync(file, '1')
  await watch.check()
  assert.deepEqual(texts, ['1'])
})

test('a file that stays the same is read a few times more and then no longer', async (t) => {
  const file = join(temporaryDirectory(t), 'a.json')
  writeFileSync(file, '0')
  let reads = 0
  const read = async () => {
    reads += 1
    return '0'
  }
  const disk = { stat: (path: string) => stat(path, { bigint: true }), read }
  const { watch } = watched(t, file, { disk })
  for (let look = 0; look < 30; look++) await watch.check()
  assert.equal(reads, 9)
  utimesSync(file, 1, 1)
  for (let look = 0; look < 30; look++) await watch.check()
  assert.equal(reads, 18)
})

test('two looks at once are taken one after the other', async (t) => {
  const file = join(temporaryDirectory(t), 'a.json')
  writeFileSync(file, '0')
  const first = Promise.withResolvers<string>()
  const answers = [first.promise, Promise.resolve('newer')]
  const disk = { stat: (path: string) => stat(path, { bigint: true }), read: () => answers.shift()! }
  const { texts, watch } = watched(t, file, { disk })
  const looks = [watch.check(), watch.check()]
  first.resolve('older')
  await Promise.all(looks)
  assert.deepEqual(texts, ['older', 'newer'])
})

test('again() tells the content once more', async (t) => {
  const file = join(temporaryDirectory(t), 'a.json')
  writeFileSync(file, '0')
  const { texts, watch } = watched(t, file)
  for (let look = 0; look < 15; look++) await watch.check()
  watch.again()
  await watch.check()
  await watch.check()
  assert.deepEqual(texts, ['0', '0'])
})

test('againLater() tells the content after about a second, or later when its use takes long', async (t) => {
  const file = join(temporaryDirectory(t), 'a.json')
  writeFileSync(file, '0')
  const looksUntilTold = async (tookMs: number) => {
    const { texts, watch } = watched(t, file, { known: '0', intervalMs: 250_000 })
    watch.againLater(tookMs)
    for (let looks = 1; ; looks++) {
      await watch.check()
      if (texts.length > 0) return looks
    }
  }
  assert.equal(await looksUntilTold(0), 4)
  assert.equal(await looksUntilTold(100_000), 8)
})

test('againLater() does not put off what again() asked for', async (t) => {
  const file = join(temporaryDirectory(t), 'a.json')
  writeFileSync(file, '0')
  const { texts, watch } = watched(t, file, { known: '0' })
  watch.again()
  watch.againLater(0)
  await watch.check()
  assert.deepEqual(texts, ['0'])
})

test('an onChange that throws is called again at each look, and onGone is called once', async (t) => {
  const file = join(temporaryDirectory(t), 'a.json')
  writeFileSync(file, '0')
  let asked = 0
  let isBroken = true
  const { errors, watch } = watched(t, file, {
    onChange: async () => {
      asked += 1
      if (isBroken) throw new Error('no room')
    },
  })
  for (let look = 0; look < 3; look++) await watch.check()
  assert.deepEqual([asked, errors], [3, ['no room']])
  isBroken = false
  for (let look = 0; look < 3; look++) await watch.check()
  assert.deepEqual([asked, errors], [4, ['no room']])
})

test('only the return of a file that was gone before is told', async (t) => {
  const file = join(temporaryDirectory(t), 'a.json')
  const { texts, errors, watch } = watched(t, file, { isGone: true })
  for (let look = 0; look < 4; look++) await watch.check()
  writeFileSync(file, '0')
  await watch.check()
  assert.deepEqual([texts, errors], [['0'], []])
})

test('a file that is away for one look is no news', async (t) => {
  const file = join(temporaryDirectory(t), 'a.json')
  writeFileSync(file, '0')
  const { texts, errors, watch } = watched(t, file, { known: '0' })
  unlinkSync(file)
  await watch.check()
  writeFileSync(file, '0')
  await watch.check()
  unlinkSync(file)
  await watch.check()
  assert.deepEqual([texts, errors], [[], []])
})

test('a file that stays away is told once, and its content when it is back, even if it is the same', async (t) => {
  const file = join(temporaryDirectory(t), 'a.json')
  writeFileSync(file, '0')
  const { texts, errors, watch } = watched(t, file, { known: '0' })
  unlinkSync(file)
  for (let look = 0; look < 4; look++) await watch.check()
  assert.equal(errors.length, 1)
  assert.match(errors[0] ?? '', /ENOENT/)
  writeFileSync(file, '0')
  await watch.check()
  assert.deepEqual(texts, ['0'])
  unlinkSync(file)
  for (let look = 0; look < 4; look++) await watch.check()
  assert.equal(errors.length, 2)
})

test('an unchanged file is told after a time in which it could not be read', async (t) => {
  const file = join(temporaryDirectory(t), 'a.json')
  writeFileSync(file, '0')
  let away = false
  const disk = {
    stat: (path: string) => (away ? Promise.reject('stale handle') : stat(path, { bigint: true })),
    read: (path: string) => readFile(path, 'utf8'),
  }
  const { texts, errors, watch } = watched(t, file, { disk, known: '0' })
  const look = async (times: number) => {
    for (let count = 0; count < times; count++) await watch.check()
  }
  await look(20)
  away = true
  await look(2)
  away = false
  await look(2)
  assert.deepEqual([texts, errors], [['0'], ['stale handle']])
})

test('the file is looked at four times a second until the watch is stopped', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let looks = 0
  const stat = async () => {
    looks += 1
    throw new Error('away')
  }
  const ignore = () => {}
  const watch = new FileWatch('x', { disk: { stat, read: async () => '' }, onChange: ignore, onGone: ignore })
  t.mock.timers.tick(249)
  await setImmediate()
  assert.equal(looks, 0)
  for (const expected of [1, 2, 3]) {
    t.mock.timers.tick(expected === 1 ? 1 : 250)
    await setImmediate()
    assert.equal(looks, expected)
  }
  t.mock.timers.tick(250)
  watch.stop()
  await setImmediate()
  assert.equal(looks, 4)
  t.mock.timers.tick(1000)
  await setImmediate()
  assert.equal(looks, 4)
})

test('a stopped watch looks no more', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const ignore = () => {}
  let looks = 0
  const stat = async () => {
    looks += 1
    throw new Error('away')
  }
  const watch = new FileWatch('x', { disk: { stat, read: async () => '' }, onChange: ignore, onGone: ignore })
  watch.stop()
  t.mock.timers.tick(1000)
  await setImmediate()
  assert.equal(looks, 0)
})

test('a file that is not regular counts as away', async (t) => {
  const { errors, watch } = watched(t, temporaryDirectory(t))
  await watch.check()
  await watch.check()
  assert.match(errors[0] ?? '', /is not a regular file/)
})

test('nothing is told after stop, not even by a look that is under way', async (t) => {
  const file = join(temporaryDirectory(t), 'a.json')
  writeFileSync(file, '0')
  const { texts, errors, watch } = watched(t, file)
  const look = watch.check()
  watch.stop()
  await look
  unlinkSync(file)
  await watch.check()
  await watch.check()
  assert.deepEqual([texts, errors], [[], []])
})

test('edits are told one after another, each within one second', async (t) => {
  const file = join(temporaryDirectory(t), 'a.json')
  writeFileSync(file, '0')
  const told = new EventTarget()
  let looks = 0
  const disk = {
    stat: (path: string) => {
      looks += 1
      return stat(path, { bigint: true })
    },
    read: (path: string) => readFile(path, 'utf8'),
  }
  const { watch } = watched(t, file, {
    intervalMs: 250,
    known: '0',
    disk,
    onChange: (text) => told.dispatchEvent(new MessageEvent('text', { data: text })),
  })
  // A pending once() does not keep the process alive, as the listener of the real gateway does.
  const hold = setInterval(() => {}, 1000)
  t.after(() => clearInterval(hold))
  for (const text of ['1', '2']) {
    const change = once(told, 'text')
    writeFileSync(file, text)
    const before = looks
    const [event] = await change
    assert.equal(event.data, text)
    // One second, counted in looks of the watch, because looks are late on a busy machine.
    assert.ok(looks - before <= 4, String(looks - before))
  }
  watch.stop()
})

test('a watch does not keep its process alive', async (t) => {
  const file = join(temporaryDirectory(t), 'a.json')
  writeFileSync(file, '0')
  const script = `
    import { FileWatch } from ${JSON.stringify(new URL('watch.ts', import.meta.url).href)}
    const stay = () => {}
    const watch = new FileWatch(${JSON.stringify(file)}, { intervalMs: 10, onChange: stay, onGone: stay })
    await watch.check()
    console.log('done')`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', script], {
    timeout: 100_000,
  })
  assert.equal(stdout, 'done\n')
})
