import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, renameSync, rmSync, symlinkSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Write } from '../../storage/append-log.ts'
import { Limiter } from '../limiter.ts'
import { makeRow } from '../table/limit-row.test-support.ts'
import type { LimitRow } from '../table/limit-table.ts'
import { Journal, type OnJournalFailure } from './limit-journal.ts'

const START_MS = 1_763_692_800_000
const HOUR_MS = 3_600_000

function row(name: string, windowMs: number, limit: number): LimitRow {
  return makeRow({ name, path: `/${name}`, limit, windowMs })
}

const HOURLY = row('hourly', HOUR_MS, 100)
const MINUTELY = row('minutely', 60_000, 5)
const SLICED = row('sliced', HOUR_MS, 2_000)

describe('a journal that cannot be written', () => {
  let dir: string
  let nowMs: number
  /** Bytes that the disk still takes. */
  let roomBytes: number
  let removed: string[]
  let failed: string[]
  const unlocks: (() => void)[] = []
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'countersign-'))
    nowMs = START_MS
    roomBytes = Number.POSITIVE_INFINITY
    removed = []
    failed = []
  })
  afterEach(() => {
    for (const unlock of unlocks.splice(0)) unlock()
    rmSync(dir, { recursive: true, force: true })
  })

  const write: Write = (fd, data) => {
    const bytes = Buffer.from(data)
    if (roomBytes === 0) throw Object.assign(new Error('ENOSPC: no space left on device, write'))
    const sent = writeSync(fd, bytes.subarray(0, Math.min(roomBytes, bytes.length)))
    roomBytes -= sent
    return sent
  }
  const start = (onFailure: OnJournalFailure = 'unready') => {
    const reports = {
      ignored() {},
      failed: ({ message }: Error) => failed.push(message),
      removed: (directory: string) => removed.push(directory),
    }
    const journal = new Journal({ directory: join(dir, 'limits'), onFailure, reports, write })
    const limiter = new Limiter({ clock: () => nowMs, journal })
    limiter.replace([HOURLY, MINUTELY, SLICED])
    let open = true
    const stop = () => {
      if (open) limiter.close()
      open = false
    }
    // As if killed: what is in memory only is lost, and so is the lock.
    const kill = () => {
      if (open) journal.close([], nowMs)
      open = false
    }
    unlocks.push(kill)
    return { journal, limiter, stop, kill }
  }
  /** Counts how many of `count` requests come through. */
  const admit = (limiter: Limiter, count: number, of = HOURLY) => {
    let allowed = 0
    for (let i = 0; i < count; i++) {
      nowMs += 300
      if (limiter.take(of, 'p:alice').allowed) allowed++
    }
    return allowed
  }

  it('lets no more through than the limit, over crashes and restarts on the full disk', () => {
    const first = start()
    assert.equal(admit(first.limiter, 60), 60)
    // The disk gets full in the middle of a line.
    roomBytes = 100
    const meanwhile = admit(first.limiter, 40)
    assert.ok(meanwhile < 5, String(meanwhile))
    assert.equal(first.limiter.take(HOURLY, 'p:alice').unrecorded, true)
    assert.equal(first.limiter.isWritable, false)
    first.kill()
    const second = start()
    assert.equal(admit(second.limiter, 50), 0)
    assert.equal(second.limiter.isWritable, false)
    second.stop()
    roomBytes = Number.POSITIVE_INFINITY
    const third = start()
    third.limiter.maintain()
    assert.equal(third.limiter.isWritable, true)
    assert.equal(admit(third.limiter, 100), 40 - meanwhile)
  })

  it('goes on by itself when there is room again, and has counted nothing that it refused', () => {
    const { limiter } = start()
    for (const row of [HOURLY, SLICED]) assert.equal(admit(limiter, 1, row), 1)
    roomBytes = 7
    for (const row of [HOURLY, SLICED]) assert.equal(admit(limiter, 10, row), 0)
    roomBytes = Number.POSITIVE_INFINITY
    assert.equal(limiter.isWritable, false)
    nowMs += 1000
    limiter.maintain()
    assert.equal(limiter.isWritable, true)
    assert.equal(admit(limiter, 200), 99)
    assert.equal(limiter.take(SLICED, 'p:alice').remaining, 1_998)
  })

  it('asks for no room for windows of less than an hour', () => {
    const { limiter } = start()
    roomBytes = 0
    assert.equal(admit(limiter, 10, MINUTELY), 5)
  })

  it('is not missed where every window is shorter than an hour', () => {
    const { limiter, journal } = start()
    limiter.replace([MINUTELY])
    roomBytes = 0
    limiter.replace([MINUTELY, { ...MINUTELY, name: 'other', path: '/other' }])
    assert.equal(journal.isWritable, false)
    assert.equal(limiter.isWritable, true)
  })

  it('counts in memory where the operator wants it so, and says so', () => {
    const { limiter } = start('degraded')
    roomBytes = 0
    assert.equal(admit(limiter, 200), 100)
    assert.equal(limiter.isWritable, false)
    roomBytes = Number.POSITIVE_INFINITY
    nowMs += 1000
    limiter.maintain()
    assert.equal(limiter.isWritable, true)
  })

  it('is begun anew with every count when its files are removed under it', () => {
    const { limiter, kill } = start()
    assert.equal(admit(limiter, 60), 60)
    limiter.maintain()
    assert.deepEqual(removed, [])
    rmSync(join(dir, 'limits'), { recursive: true })
    limiter.maintain()
    assert.deepEqual(removed, [join(dir, 'limits')])
    assert.equal(limiter.isWritable, true)
    limiter.maintain()
    assert.equal(removed.length, 1)
    assert.equal(admit(limiter, 20), 20)
    const [segment] = readdirSync(join(dir, 'limits')).filter((name) => name.startsWith('hits-'))
    rmSync(join(dir, 'limits', String(segment)))
    limiter.maintain()
    assert.equal(removed.length, 2)
    kill()
    assert.equal(admit(start().limiter, 100), 20)
  })

  it('reports files that cannot be looked at, and goes on with those that it has open', () => {
    const { limiter, kill } = start()
    assert.equal(admit(limiter, 60), 60)
    const [directory, moved] = [join(dir, 'limits'), join(dir, 'moved')]
    renameSync(directory, moved)
    symlinkSync(directory, directory)
    limiter.maintain()
    assert.match(failed.join(), /^ELOOP: .*, stat /)
    assert.deepEqual(removed, [])
    assert.equal(limiter.isWritable, true)
    assert.equal(admit(limiter, 20), 20)
    rmSync(directory)
    renameSync(moved, directory)
    limiter.maintain()
    assert.equal(failed.length, 1)
    kill()
    assert.equal(admit(start().limiter, 100), 20)
  })

  it('can be closed when its files cannot be looked at', () => {
    const { limiter, stop } = start()
    rmSync(join(dir, 'limits'), { recursive: true })
    symlinkSync('limits', join(dir, 'limits'))
    limiter.maintain()
    stop()
    assert.match(failed.at(-1) ?? '', /^ELOOP/)
  })

  it('keeps every count, also of short windows, through a start with a wrong clock', () => {
    const first = start()
    assert.equal(admit(first.limiter, 60), 60)
    assert.equal(admit(first.limiter, 5, MINUTELY), 5)
    first.stop()
    nowMs += 25 * HOUR_MS
    start().stop()
    nowMs -= 25 * HOUR_MS
    const after = start()
    assert.equal(admit(after.limiter, 5, MINUTELY), 0)
    assert.equal(admit(after.limiter, 100), 40)
  })

  it('removes segments that no window needs, once a window has passed while a gateway ran', () => {
    const first = start()
    admit(first.limiter, 60)
    first.stop()
    nowMs += 25 * HOUR_MS
    const second = start()
    const segments = () => readdirSync(join(dir, 'limits')).filter((name) => name.startsWith('hits-')).length
    assert.equal(segments(), 2)
    nowMs += 2 * HOUR_MS
    second.limiter.maintain()
    assert.equal(segments(), 1)
  })
})
