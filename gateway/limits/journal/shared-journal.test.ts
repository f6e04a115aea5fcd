import assert from 'node:assert/strict'
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Write } from '../../storage/append-log.ts'
import { Limiter } from '../limiter.ts'
import { LockedLimiter } from '../locked-limiter.ts'
import { makeRow } from '../table/limit-row.test-support.ts'
import type { LimitRow } from '../table/limit-row.ts'
import type { Hit } from './journal-records.ts'
import { Journal } from './limit-journal.ts'
import { SharedJournal } from './shared-journal.ts'

const HOUR_MS = 3_600_000

function row(name: string, windowMs: number, limit = 10): LimitRow {
  return makeRow({
    name,
    path: `/${name}`,
    limit,
    window: '',
    windowMs,
    purpose: '',
  })
}

const DURABLE = row('durable', HOUR_MS)
const BRIEF = row('brief', 60_000)

/** The main thread's journal and a worker's, in one thread: what one tells, the other does at once. */
describe('a journal that another thread has joined', () => {
  let dir: string
  let nowMs: number
  let disk: 'good' | 'full' | 'torn'
  let failures: string[]
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'countersign-'))
    nowMs = 1_763_692_800_000
    disk = 'good'
    failures = []
  })
  afterEach(() => rmSync(dir, { recursive: true, force: true }))

  const write: Write = (fd, bytes) => {
    if (disk === 'full') throw new Error('no space')
    if (disk === 'good') return writeSync(fd, Buffer.from(bytes))
    disk = 'full'
    return writeSync(fd, Buffer.from(bytes).subarray(0, 5))
  }

  function threads() {
    const torn = { raised: false }
    const failing = { raised: false }
    const clock = () => nowMs
    const journal = new Journal({
      directory: dir,
      reports: { ignored: () => assert.fail(), failed: ({ message }) => failures.push(message) },
      write,
      flags: { torn, failing },
    })
    const lead = new Limiter({ clock, journal })
    lead.replace([DURABLE, BRIEF])
    const { records, hits } = lead.copy()
    const told: [Hit, boolean][] = []
    const joined = new SharedJournal({
      copy: { records, hits: [...hits] },
      descriptor: journal.descriptor,
      flags: { torn, failing },
      write,
      onHit: (hit, written) => {
        told.push([hit, written])
        if (lead.count(hit)) journal.appendFromOther(hit, written)
      },
    })
    const worker = new Limiter({ clock, journal: joined })
    worker.replace([DURABLE, BRIEF])
    return { journal, lead, joined, worker, told, torn }
  }

  /** What another run makes of it. */
  function recovered(): string[] {
    const damaged: number[] = []
    const journal = new Journal({
      directory: dir,
      reports: { ignored: ({ damagedLines }) => damaged.push(damagedLines), failed: assert.fail },
    })
    const hits = [...new Limiter({ clock: () => nowMs, journal }).copy().hits].map(({ key }) => key)
    return damaged.length > 0 ? [...hits, `and ${damaged} damaged`] : hits
  }
  const unlock = ({ journal }: { readonly journal: Journal }) => journal.close([], nowMs)
  const lines = (from = 0) =>
    readdirSync(dir)
      .filter((name) => name.startsWith('hits-'))
      .sort()
      .slice(from)
      .map((name) => readFileSync(join(dir, name), 'utf8'))
      .join('')

  it('holds a durable hit of the worker when the take returns, written once', () => {
    const made = threads()
    made.worker.take(DURABLE, 'alice')
    assert.match(lines(), /,"alice"\]\n$/)
    made.worker.take(BRIEF, 'bob')
    assert.deepEqual(
      made.told.map(([{ key }, written]) => [key, written]),
      [
        ['alice', true],
        ['bob', false],
      ],
    )
    unlock(made)
    assert.deepEqual(recovered(), ['alice'])
  })

  it('has the copy count what the original counts, and number new rows alike', () => {
    const { journal, lead, joined, worker } = threads()
    for (let i = 0; i < 7; i++) worker.take(DURABLE, 'alice')
    const next = [row('new', HOUR_MS), DURABLE, row('other', 1000)]
    const firstId = journal.nextId
    lead.replace(next, nowMs)
    joined.numberFrom(firstId)
    worker.replace(next, nowMs)
    assert.deepEqual(worker.copy().records, lead.copy().records)
    assert.equal(lead.take(DURABLE, 'alice').remaining, 2)
    assert.equal(lead.count({ id: 99, key: 'x', atMs: nowMs, count: 1 }), false)
  })

  it('keeps the hits that the worker could not write, until the disk takes them', () => {
    const made = threads()
    disk = 'full'
    made.worker.take(DURABLE, 'alice')
    assert.deepEqual(
      made.told.map(([, written]) => written),
      [false],
    )
    disk = 'good'
    // The worker does not try again at once; nobody else is to wait for a disk that takes nothing.
    made.worker.take(DURABLE, 'bob')
    assert.deepEqual(
      made.told.map(([, written]) => written),
      [false, false],
    )
    nowMs += 250
    made.worker.take(DURABLE, 'carol')
    made.journal.maintain(nowMs, () => [])
    assert.equal(made.journal.waitingBytes, 0)
    unlock(made)
    assert.deepEqual(recovered().toSorted(), ['alice', 'bob', 'carol'])
  })

  it('cuts off the part of a line that the disk took of a worker', () => {
    const made = threads()
    disk = 'torn'
    made.worker.take(DURABLE, 'alice')
    assert.equal(made.torn.raised, false)
    assert.doesNotMatch(lines(), /alice/)
    disk = 'good'
    nowMs += 250
    made.worker.take(DURABLE, 'bob')
    made.journal.maintain(nowMs, () => [])
    unlock(made)
    assert.deepEqual(recovered().toSorted(), ['alice', 'bob'])
  })

  it('ends the line that a thread has torn before another goes on', () => {
    const made = threads()
    made.torn.raised = true
    const [segment] = readdirSync(dir).filter((name) => name.startsWith('hits-'))
    appendFileSync(join(dir, String(segment)), '[1,1763692800000,"al')
    made.worker.take(DURABLE, 'bob')
    assert.equal(made.torn.raised, false)
    made.worker.take(DURABLE, 'carol')
    unlock(made)
    assert.deepEqual(recovered(), ['bob', 'carol', 'and 1 damaged'])
  })

  it('writes a line anew that the main thread could write a part of only, for others have written since', () => {
    const made = threads()
    disk = 'full'
    made.worker.take(DURABLE, 'alice')
    disk = 'torn'
    nowMs += 250
    made.journal.maintain(nowMs, () => [])
    disk = 'good'
    nowMs += 250
    made.worker.take(DURABLE, 'bob')
    made.journal.maintain(nowMs, () => [])
    unlock(made)
    const keys = recovered()
    assert.deepEqual(keys.filter((key) => !key.startsWith('and ')).toSorted(), ['alice', 'bob'])
  })

  it('goes on in another segment for all, and keeps the one before as long as a window needs a hit of it', () => {
    const { journal, joined, worker } = threads()
    worker.take(DURABLE, 'alice')
    nowMs += HOUR_MS - 1
    worker.take(DURABLE, 'bob')
    const before = journal.descriptor
    journal.maintain(nowMs, () => [])
    assert.equal(journal.descriptor, before)
    nowMs += 1
    journal.maintain(nowMs, () => [])
    assert.equal(readdirSync(dir).filter((name) => name.startsWith('hits-')).length, 2)
    joined.moveTo(journal.descriptor)
    worker.take(DURABLE, 'carol')
    assert.match(lines(1), /"carol"/)
    assert.doesNotMatch(lines(1), /"bob"/)
    nowMs += HOUR_MS
    journal.maintain(nowMs, () => [])
    joined.moveTo(journal.descriptor)
    assert.doesNotMatch(lines(), /"bob"/)
  })

  it('begins another segment when the workers have filled one', () => {
    const { journal, worker } = threads()
    const before = journal.descriptor
    const key = 'x'.repeat(1_000_000)
    /** After so many hits of 1 MB: how many segments there are, and whether the first is still written. */
    const after = (hits: number, of: string) => {
      for (let i = 0; i < hits; i++) assert.ok(worker.take(DURABLE, of).allowed)
      nowMs += 5000
      journal.maintain(nowMs, () => [])
      const segments = readdirSync(dir).filter((name) => name.startsWith('hits-'))
      return [segments.length, journal.descriptor === before]
    }
    assert.deepEqual(after(10, key), [1, true])
    assert.deepEqual(after(10, `${key}y`), [2, false])
    assert.deepEqual(after(0, ''), [2, false])
  })

  it('has a worker without a segment leave every hit to the main thread', () => {
    const { joined, worker, told } = threads()
    joined.moveTo(undefined)
    worker.take(DURABLE, 'alice')
    assert.deepEqual(
      told.map(([, written]) => written),
      [false],
    )
    // Nothing else is its business.
    joined.putTable()
    joined.appendAll()
    joined.close()
  })

  it('is entered and left by each take, also by one that throws', () => {
    const { worker } = threads()
    const steps: string[] = []
    const take = worker.take.bind(worker)
    worker.take = (...asked) => {
      steps.push('take')
      return take(...asked)
    }
    const shared = new LockedLimiter(worker, {
      enter: () => steps.push('enter'),
      leave: () => steps.push('leave'),
    })
    assert.equal(shared.take(BRIEF, 'alice').remaining, 9)
    assert.throws(() => shared.take(row('stranger', 1000), 'alice'), /was never in the table/)
    shared.close()
    assert.deepEqual(steps, ['enter', 'take', 'leave', 'enter', 'take', 'leave'])
  })
})
