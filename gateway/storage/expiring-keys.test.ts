import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { type KeySharing, RememberedKeys } from './expiring-keys.ts'
import { ownFlags } from './key-log.ts'

const LIFETIME_MS = 60_000
const FORM = {
  key: 'key',
  time: 'atMs',
  accepts: (value: unknown): value is string => typeof value === 'string',
  lines: 'keys',
  contents: 'keys',
}

/** The main thread's copy and a worker's, in one thread: what one tells, the other learns at once. */
describe('keys that several threads remember', () => {
  let dir: string
  let nowMs: number
  let faults: string[]
  let torn: { raised: boolean }
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'countersign-'))
    nowMs = 1_763_692_800_000
    faults = []
    torn = { raised: false }
  })
  afterEach(() => rmSync(dir, { recursive: true, force: true }))

  const storeIn = (dataDir: string) => ({
    dataDir,
    name: 'keys',
    form: FORM,
    reserve: true,
    onFault: (cause: string) => faults.push(cause),
  })
  const sharing = (options: Partial<KeySharing>): KeySharing => ({
    copy: undefined,
    enter: () => {},
    leave: () => {},
    catchUp: () => {},
    publish: () => assert.fail('the main thread adds nothing'),
    flags: { ...ownFlags(), torn },
    ...options,
  })
  function threads(workersDir = dir) {
    const base = { lifetimeMs: LIFETIME_MS, clock: () => nowMs }
    const lead = new RememberedKeys({ ...base, store: storeIn(dir), sharing: sharing({}) })
    const worker = new RememberedKeys({
      ...base,
      store: storeIn(workersDir),
      sharing: sharing({
        copy: lead.entries(),
        publish: (key, atMs, written) => lead.apply(key, atMs, written),
      }),
    })
    return { lead, worker }
  }
  const keysIn = (name: string) =>
    readFileSync(join(dir, name), 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line).key)

  it('are in the file once when the worker has added them, and known to all', () => {
    const { lead, worker } = threads()
    worker.add('a')
    assert.deepEqual(keysIn('keys.ndjson'), ['a'])
    assert.equal(lead.since('a'), nowMs)
  })

  it('begin with the copy, and with what was in the file before', () => {
    threads().worker.add('a')
    assert.equal(threads().worker.since('a'), nowMs)
  })

  it('are written by the main thread when the worker could not, and the line that was torn is ended first', () => {
    const { lead, worker } = threads(join(dir, 'missing'))
    worker.add('a')
    assert.deepEqual(keysIn('keys.ndjson'), ['a'])
    assert.equal(torn.raised, false)
    assert.match(readFileSync(join(dir, 'keys.ndjson'), 'utf8'), /^\n/)
    assert.deepEqual(faults, [])
    lead.apply('b', nowMs, true)
    assert.deepEqual(keysIn('keys.ndjson'), ['a'])
  })

  it('have the worker end a line that another thread has torn', () => {
    const { worker } = threads()
    torn.raised = true
    worker.add('a')
    assert.equal(readFileSync(join(dir, 'keys.ndjson'), 'utf8').indexOf('\n{"key":"a"'), 0)
    assert.equal(torn.raised, false)
  })

  it('go on in another file after a lifetime, which the main thread sees to, and are forgotten by all', () => {
    const { lead, worker } = threads()
    worker.add('a')
    nowMs += LIFETIME_MS
    worker.add('b')
    assert.deepEqual(keysIn('keys.old.ndjson'), ['a', 'b'])
    worker.add('c')
    assert.deepEqual(keysIn('keys.ndjson'), ['c'])
    assert.equal(lead.since('a'), undefined)
    assert.equal(worker.since('a'), undefined)
  })

  it('are kept by each thread alone where there is no file', () => {
    const told: unknown[] = []
    const worker = new RememberedKeys({
      lifetimeMs: LIFETIME_MS,
      clock: () => nowMs,
      store: undefined,
      sharing: sharing({ copy: [['a', nowMs - 1]], publish: (...key) => told.push(key) }),
    })
    worker.add('b')
    assert.deepEqual(
      [...worker.entries()],
      [
        ['a', nowMs - 1],
        ['b', nowMs],
      ],
    )
    assert.deepEqual(told, [['b', nowMs, true]])
  })
})
