import assert from 'node:assert/strict'
import fs, { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { RememberedKeys } from './expiring-keys.ts'

const LIFETIME_MS = 60_000
const FORM = {
  key: 'key',
  time: 'atMs',
  accepts: (value: unknown): value is string => typeof value === 'string',
  lines: 'keys',
  contents: 'keys',
}

describe('keys that are remembered for a time', () => {
  let dir: string
  let nowMs: number
  let faults: string[]
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'countersign-'))
    nowMs = 1_763_692_800_000
    faults = []
  })
  afterEach(() => rmSync(dir, { recursive: true, force: true }))

  const open = (dataDir?: string) =>
    new RememberedKeys({
      lifetimeMs: LIFETIME_MS,
      clock: () => nowMs,
      store:
        dataDir === undefined
          ? undefined
          : {
              dataDir,
              name: 'keys',
              form: FORM,
              reserve: true,
              onFault: (cause: string) => faults.push(cause),
            },
    })
  const HEADER = '{"format":"keys","version":1}\n'
  const textOf = (name: string) => {
    const text = readFileSync(join(dir, name), 'utf8')
    assert.ok(text.startsWith(HEADER))
    return text.slice(HEADER.length)
  }
  const keysIn = (name: string) =>
    textOf(name)
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line).key)

  it('are in the file once, and known after a start', () => {
    open(dir).add('a')
    assert.deepEqual(keysIn('keys.ndjson'), ['a'])
    assert.equal(open(dir).since('a'), nowMs)
  })

  it('end a line that another process has torn', () => {
    open(dir)
    writeFileSync(join(dir, 'keys.ndjson'), '{"key":"half', { flag: 'a' })
    const keys = open(dir)
    keys.add('a')
    assert.deepEqual(keysIn('keys.ndjson'), ['a'])
    assert.match(faults.join(), /keys\.ndjson/)
  })

  it('that came in another process are written here unless that process wrote them', () => {
    const keys = open(dir)
    keys.apply('there', nowMs, true)
    keys.apply('not-there', nowMs, false)
    assert.deepEqual(keysIn('keys.ndjson'), ['not-there'])
    assert.deepEqual([keys.since('there'), keys.since('not-there')], [nowMs, nowMs])
  })

  it('go on in another file after a lifetime, and are forgotten', () => {
    const keys = open(dir)
    keys.add('a')
    nowMs += LIFETIME_MS
    keys.add('b')
    assert.deepEqual(keysIn('keys.old.ndjson'), ['a'])
    assert.deepEqual(keysIn('keys.ndjson'), ['b'])
    assert.equal(keys.since('a'), undefined)
    assert.deepEqual(faults, [])
  })

  it('are in memory alone where there is no file', () => {
    const keys = open()
    keys.add('b')
    assert.deepEqual([...keys.entries()], [['b', nowMs]])
    assert.deepEqual([keys.isSafe, keys.isWritable], [true, true])
  })

  it('cost one look at each file in a second in which nothing happens, and have a removed reserve made again', (t) => {
    const keys = open(dir)
    keys.maintain()
    t.after(() => {
      t.mock.restoreAll()
      syncBuiltinESMExports()
    })
    const stat = t.mock.method(fs, 'statSync')
    const read = t.mock.method(fs, 'readFileSync')
    syncBuiltinESMExports()
    keys.maintain()
    assert.equal(stat.mock.callCount(), 1)
    assert.equal(read.mock.callCount(), 0)
    rmSync(join(dir, 'keys.reserve.ndjson'))
    keys.maintain()
    assert.equal(fs.existsSync(join(dir, 'keys.reserve.ndjson')), true)
  })
})
