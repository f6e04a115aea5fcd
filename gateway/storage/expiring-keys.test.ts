import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { type KeyReplication, RememberedKeys } from './expiring-keys.ts'
import { ownFlags } from './key-files.ts'

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
  const replication = (options: Partial<KeyReplication>): KeyReplication => ({
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
    const lead = new RememberedKeys({ ...base, store: storeIn(dir), replication: replication({}) })
    const worker = new RememberedKeys({
      ...base,
      store: storeIn(workersDir),
      replication: replication({
        copy: lead.entries(),
        publish: (key, atMs, written) => lead.apply(key, atMs, written),
      }),
    })
    return { lead, worker }
  }
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
    assert.match(textOf('keys.ndjson'), /^\n/)
    assert.deepEqual(faults, [])
    lead.apply('b', nowMs, true)
    assert.deepEqual(keysIn('keys.ndjson'), ['a'])
  })

  it('have the worker end a line that another thread has torn', () => {
    const { worker } = threads()
    torn.raised = true
    worker.add('a')
    assert.equal(textOf('keys.ndjson').indexOf('\n{"key":"a"'), 0)
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
      replication: replication({ copy: [['a', nowMs - 1]], publish: (...key) => told.push(key) }),
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
