import assert from 'node:assert/strict'
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { basename, join, relative } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import fc from 'fast-check'
import { withoutSyncs } from '../commit/power.test-support.ts'
import { recover } from '../recovery/recovery.ts'
import { sealRecord } from '../seal-records.ts'
import {
  linesOf,
  openTo,
  requestLine,
  smallDisk,
  temporaryDirectory,
  trailIn,
  typesOf,
} from '../trail.test-support.ts'
import type { Checkpoint } from './checkpoint.ts'
import type { SealGap } from './find-sealed.ts'
import type { SealKey } from './seal-key.ts'
import { sealProgress } from './seal-progress.ts'
import { checkSeal, newSealKey, sealsFor } from './sealed-trail.test-support.ts'
import { Sealer } from './sealer.ts'
import { checkpointFile, logDirectory } from './tiles.ts'

const NOW = '2026-01-02T03:04:05.678Z'

/** A trail with a sealer in this thread, whose clock stands still until it is moved. */
class SealedTrail {
  readonly directory: string
  readonly file: string
  readonly key: SealKey
  readonly seals: Checkpoint[] = []
  readonly gaps: SealGap[] = []
  readonly faults: string[] = []
  progress = sealProgress()
  nowMs = 0
  readonly readBack: number[] = []
  #made: ReturnType<typeof trailIn>
  #sealer: Sealer | undefined
  #diedAtMs = Number.POSITIVE_INFINITY
  #count = 0

  constructor(directory: string) {
    this.directory = directory
    this.key = newSealKey(directory)
    this.#made = trailIn(directory)
    this.file = this.#made.file
  }

  get trail() {
    return this.#made.trail
  }

  get log() {
    return logDirectory(this.file)
  }

  get sealer(): Sealer {
    if (this.#sealer !== undefined) return this.#sealer
    // The writer remembers this time while no sealer is there.
    this.progress.oldestAtMs = Math.min(this.progress.oldestAtMs, this.#diedAtMs)
    const sealer = new Sealer({
      file: this.file,
      directory: this.log,
      key: this.key,
      progress: this.progress,
      now: () => this.nowMs,
      onSealed: (checkpoint) => {
        this.seals.push(checkpoint)
        const { origin, size, root } = checkpoint
        this.trail.settle(
          sealRecord(NOW, origin, { type: 'AUDIT_SEAL', size, root: root.toString('base64') }),
        )
      },
      onGap: (gap) => {
        this.gaps.push(gap)
        this.trail.settle(sealRecord(NOW, this.key.origin, { type: 'AUDIT_SEAL_GAP', ...gap }))
      },
      onReadBack: (records) => this.readBack.push(records),
      onFault: (message) => this.faults.push(message),
    })
    this.#sealer = sealer
    this.trail.sealWith(sealsFor(sealer, this.trail, () => this.nowMs, this.progress))
    return sealer
  }

  get lagMs(): number {
    return this.nowMs - Math.min(this.nowMs, this.progress.oldestAtMs)
  }

  async write(count: number): Promise<void> {
    for (let i = 0; i < count; i++) this.trail.append(requestLine(`request-${this.#count++}`))
    await turn()
  }

  /** Reads all there is, with the lines that sealing itself appends, and seals when it is time. */
  async poll(): Promise<void> {
    do {
      while (await this.sealer.poll());
      await turn()
    } while (this.sealer.restMs === 0)
  }

  /** A second passes. */
  async pollLater(): Promise<void> {
    await this.poll()
    this.nowMs += 1000
    await this.poll()
  }

  /** The process dies with its sealer, and another begins. */
  restart(): void {
    this.stopSealer()
    this.#made = trailIn(this.directory)
  }

  stopSealer(): void {
    this.sealerDies()
    this.progress = sealProgress()
  }

  /** The thread of the sealer dies, and the process goes on with another sealer. */
  sealerDies(): void {
    this.#diedAtMs = this.nowMs
    this.#sealer?.close()
    this.#sealer = undefined
  }

  rotate(name: string): void {
    fs.renameSync(this.file, `${this.file}${name}`)
    this.trail.reopen()
  }

  /** Oldest first. */
  get files(): string[] {
    const names = fs.readdirSync(this.directory).filter((name) => name.startsWith(`${basename(this.file)}.`))
    return [...names.sort().map((name) => join(this.directory, name)), this.file]
  }

  /** All lines, in the order in which they were written. */
  text(): string {
    return this.files.map((file) => fs.readFileSync(file, 'utf8')).join('')
  }

  async check() {
    return checkSeal(this.file, this.key)
  }
}

function sealedTrail(t: TestContext): SealedTrail {
  const trail = new SealedTrail(temporaryDirectory(t))
  t.after(() => trail.stopSealer())
  return trail
}

for (const count of [3, 9000]) {
  test(`a file with ${count} lines that was removed is not kept open on a full disk, and its lines are sealed when there is room`, {
    skip: !fs.existsSync('/proc/self/fd') && 'needs Linux',
  }, async (t) => {
    const trail = sealedTrail(t)
    const disk = smallDisk(t)
    await trail.write(2)
    await trail.pollLater()
    const before = trail.seals.at(-1)?.size ?? 0
    await trail.write(count)
    const fds = openTo(trail.file)
    assert.equal(fds.length, 2)
    fs.rmSync(trail.file)
    disk.roomBytes = 0
    trail.trail.reopen()
    for (let tries = 0; tries < 3; tries++) await assert.rejects(trail.pollLater(), /ENOSPC/)
    assert.deepEqual(openTo(`${trail.file} (deleted)`), [])
    disk.roomBytes = Number.POSITIVE_INFINITY
    assert.equal(trail.trail.recheck(), true)
    await trail.write(3)
    await trail.pollLater()
    assert.deepEqual([trail.gaps, trail.faults], [[], []])
    // AUDIT_SEAL, the lines of both files, and AUDIT_START and what comes with it.
    assert.ok((trail.seals.at(-1)?.size ?? 0) > before + 1 + count + 3)
  })
}

test('a line is sealed after a second, or with 32,768 others, and a seal is no reason for another', async (t) => {
  const trail = sealedTrail(t)
  await trail.write(3)
  await trail.poll()
  assert.deepEqual(
    [trail.seals.length, trail.progress.unsealedRecords, fs.existsSync(trail.log)],
    [0, 3, false],
  )
  trail.nowMs = 999
  await trail.poll()
  assert.equal(trail.seals.length, 0)
  trail.nowMs = 1000
  await trail.poll()
  assert.deepEqual([trail.seals.length, trail.progress.sealedSize, trail.progress.unsealedRecords], [1, 3, 0])
  const { checkpoint, rest } = await trail.check()
  assert.deepEqual([checkpoint.size, typesOf(rest)], [3, ['AUDIT_SEAL']])
  assert.equal(rest[0]?.root, checkpoint.root.toString('base64'))
  trail.nowMs = 60_000
  await trail.pollLater()
  assert.deepEqual([trail.seals.length, trail.lagMs], [1, 0])
  await trail.write(33_500)
  await trail.poll()
  assert.equal(trail.seals.length, 2)
  const { checkpoint: second } = await trail.check()
  assert.ok(second.size >= 4 + 32_768 && second.size < 33_504)
  assert.equal(trail.progress.unsealedRecords, 33_504 - second.size)
  await trail.pollLater()
  assert.equal((await trail.check()).checkpoint.size, 33_505)
  assert.deepEqual(trail.faults, [])
})

test('while records come, the lag is at most the second that a record waits plus the time between reads', async (t) => {
  const trail = sealedTrail(t)
  for (let reads = 0; reads < 300; reads++) {
    await trail.write(10)
    // The thread that seals reads once, and rests when it has read to the end.
    await trail.sealer.poll()
    const { lagMs } = trail
    assert.ok(lagMs <= 1000, `${lagMs} ms after ${reads} reads`)
    trail.nowMs += 200
  }
  assert.ok(trail.seals.length >= 50)
  await trail.pollLater()
  const beforeMs = trail.nowMs
  await trail.write(1)
  smallDisk(t).roomBytes = 0
  for (let reads = 0; reads < 50; reads++) {
    await trail.sealer.poll().catch(() => {})
    trail.nowMs += 200
  }
  assert.equal(trail.lagMs, trail.nowMs - beforeMs, 'nothing is sealed on a full disk')
})

test('the log is private, and only its last tiles are partial', async (t) => {
  const trail = sealedTrail(t)
  for (const count of [200, 100, 300]) {
    await trail.write(count)
    await trail.pollLater()
  }
  const names = fs.readdirSync(trail.log, { recursive: true }).map(String).sort()
  assert.deepEqual(names, [
    'checkpoint',
    'tile',
    'tile/0',
    'tile/0/000',
    'tile/0/001',
    'tile/0/002.p',
    'tile/0/002.p/90',
    'tile/1',
    'tile/1/000.p',
    'tile/1/000.p/1',
    'tile/1/000.p/2',
    'unsynced-tiles',
  ])
  for (const name of names) {
    const stats = fs.statSync(join(trail.log, name))
    assert.equal(stats.mode & 0o777, stats.isDirectory() ? 0o700 : 0o600)
  }
})

test('the disk has the lines before a checkpoint covers them', async (t) => {
  const steps: string[] = []
  const { fdatasyncSync, fsync, fsyncSync, renameSync } = fs
  const trail = sealedTrail(t)
  await trail.write(300)
  await trail.poll()
  Object.assign(fs, {
    fdatasyncSync: (fd: number) => {
      steps.push('sync the trail')
      fdatasyncSync(fd)
    },
    fsync: (fd: number, done: fs.NoParamCallback) => {
      fsync(fd, (error) => {
        steps.push('sync a tile')
        done(error)
      })
    },
    fsyncSync: (fd: number) => {
      steps.push(fs.fstatSync(fd).isDirectory() ? 'sync a directory' : 'sync a file')
      fsyncSync(fd)
    },
    renameSync: (from: string, to: string) => {
      steps.push(relative(trail.log, to).replace(/\/.*/, ''))
      renameSync(from, to)
    },
  })
  syncBuiltinESMExports()
  t.after(() => {
    Object.assign(fs, { fdatasyncSync, fsync, fsyncSync, renameSync })
    syncBuiltinESMExports()
  })
  trail.nowMs = 1000
  await trail.poll()
  assert.equal(steps[0], 'sync the trail')
  // This is for the name of the log itself.
  assert.equal(steps[1], 'sync a directory')
  assert.deepEqual(steps.slice(2, 5), ['sync a file', 'unsynced-tiles', 'sync a directory'])
  // A full tile, a partial one beside it, and one above both.
  assert.deepEqual(steps.slice(5, 10), ['tile', 'sync a tile', 'sync a tile', 'tile', 'tile'])
  assert.deepEqual(steps.slice(-3), ['sync a file', 'checkpoint', 'sync a directory'])
  assert.ok(steps.slice(10, -3).every((step) => step === 'sync a directory') && steps.length >= 15)
})

test('a log goes on where it was left off, at whatever step the process died', async (t) => {
  const trail = sealedTrail(t)
  await trail.write(300)
  await trail.pollLater()
  await trail.write(10)
  await trail.poll()
  trail.restart()
  await trail.write(5)
  await trail.pollLater()
  assert.equal((await trail.check()).checkpoint.size, 300 + 1 + 10 + 5)
  // The tiles of the next checkpoint were written, and the checkpoint was not.
  const before = fs.readFileSync(checkpointFile(trail.log))
  await trail.write(400)
  await trail.pollLater()
  fs.writeFileSync(checkpointFile(trail.log), before)
  trail.restart()
  await trail.write(1)
  await trail.pollLater()
  assert.equal((await trail.check()).checkpoint.size, 316 + 1 + 400 + 1 + 1)
  assert.deepEqual([trail.gaps, trail.faults], [[], []])
})

test('what an earlier process has left is sealed as soon as it is read, however soon each process dies', async (t) => {
  const trail = sealedTrail(t)
  await trail.write(1)
  await trail.pollLater()
  for (const life of [1, 2, 3]) {
    await trail.write(2)
    trail.restart()
    await trail.poll()
    assert.deepEqual([trail.seals.length, trail.progress.unsealedRecords], [1 + life, 0])
  }
  await trail.check()
})

test('lines that the sealer did not get are read back and reported, also in a new log; older lines are not reported', async (t) => {
  const trail = sealedTrail(t)
  await trail.write(3)
  await trail.poll()
  assert.deepEqual(trail.readBack, [])
  // The sealer gets no lines, as after a full queue.
  trail.trail.sealWith({ ...sealsFor(trail.sealer, trail.trail, () => 0), begin: () => {}, wrote: () => {} })
  await trail.write(2)
  trail.sealer.hear({ type: 'begin', ...trail.trail.told })
  await trail.poll()
  assert.deepEqual(trail.readBack, [2])
  await trail.check()
})

test('the end of each segment is sealed, whoever renames it and however often', async (t) => {
  const trail = sealedTrail(t)
  trail.trail.begin({ records: [], cutBytes: 0, damagedLines: 0, unresolved: 0 })
  await trail.write(5)
  await trail.poll()
  trail.rotate('.1')
  await trail.write(5)
  await trail.poll()
  // AUDIT_STOP is the last line of the old segment.
  assert.deepEqual(
    trail.seals.map(({ size }) => size),
    [7],
  )
  trail.rotate('.20260102T000000001Z')
  await trail.write(1)
  trail.rotate('.20260102T000000002Z')
  await trail.write(2)
  trail.rotate('.20260102T000000003Z')
  await trail.write(3)
  await trail.pollLater()
  const { checkpoint, rest } = await trail.check()
  assert.ok(checkpoint.size > 20)
  assert.deepEqual(
    typesOf(rest).filter((type) => type !== 'AUDIT_SEAL'),
    [],
  )
  assert.deepEqual([trail.gaps, trail.faults], [[], []])
})

test('a log that begins late or is behind reads closed segments, compressed or not', async (t) => {
  const trail = sealedTrail(t)
  const lines: string[] = []
  const close = async (ending: string, pack: (text: Buffer) => Buffer) => {
    await trail.write(600)
    trail.rotate('.closed')
    const text = fs.readFileSync(`${trail.file}.closed`)
    lines.push(text.toString())
    fs.rmSync(`${trail.file}.closed`)
    fs.writeFileSync(`${trail.file}${ending}`, pack(text))
  }
  await close('.20260102T000000001Z.zst', zstdCompressSync)
  await close('.20260102T000000002Z.gz', gzipSync)
  await trail.poll()
  assert.deepEqual(
    trail.seals.map(({ size }) => size),
    [601, 1203],
  )
  trail.stopSealer()
  await close('.20260102T000000003Z.gz', gzipSync)
  await close('.20260102T000000004Z', (text) => text)
  await trail.pollLater()
  for (const [i, text] of lines.entries()) fs.writeFileSync(`${trail.file}.20260102T00000000${i + 1}Z`, text)
  const { rest } = await trail.check()
  assert.ok(typesOf(rest).every((type) => type === 'AUDIT_SEAL'))
  assert.deepEqual([trail.gaps, trail.faults], [[], []])
})

test('sealed lines that are gone are a gap, which the trail records, and sealing goes on behind it', async (t) => {
  const trail = sealedTrail(t)
  await trail.write(100)
  await trail.pollLater()
  const lines = fs.readFileSync(trail.file, 'utf8').split(/(?<=\n)/)
  trail.stopSealer()
  fs.writeFileSync(trail.file, lines.slice(0, 60).join(''))
  trail.restart()
  await trail.write(1)
  await trail.pollLater()
  assert.deepEqual(trail.gaps, [{ size: 100, found: 60 }])
  const after = linesOf(trail.file).slice(60)
  assert.deepEqual(typesOf(after), ['API_REQUEST', 'AUDIT_SEAL_GAP', 'AUDIT_SEAL', 'AUDIT_SEAL'])
  assert.deepEqual([after[2]?.size, after[3]?.size], [101, 103])
  assert.deepEqual([after[1]?.size, after[1]?.found], [100, 60])
  // No sealed line is left, so the oldest segment is sealed from its beginning.
  trail.stopSealer()
  fs.writeFileSync(trail.file, '')
  trail.restart()
  await trail.write(7)
  await trail.pollLater()
  assert.deepEqual(trail.gaps.at(-1), { size: 103, found: undefined })
  assert.equal(trail.seals.at(-1)?.size, 103 + 7 + 2)
})

test('a file that others cut, or rewrite before it is sealed, costs no seal: the lines are sealed as they were written', async (t) => {
  const trail = sealedTrail(t)
  await trail.write(1)
  await trail.poll()
  await trail.write(20)
  fs.writeFileSync(trail.file, fs.readFileSync(trail.file, 'utf8').replaceAll('GET', 'PUT'))
  await trail.pollLater()
  const written = fs.readFileSync(trail.file, 'utf8').replaceAll('PUT', 'GET')
  fs.truncateSync(trail.file)
  await trail.write(3)
  await trail.pollLater()
  assert.deepEqual([trail.gaps, trail.faults], [[], []])
  const [cut = ''] = fs.readdirSync(trail.directory).filter((name) => name.startsWith('audit.ndjson.'))
  assert.equal(fs.statSync(join(trail.directory, cut)).size, 0)
  // With the lines as they were written, the files have the root of the tree.
  fs.writeFileSync(join(trail.directory, cut), written)
  const { checkpoint, rest } = await trail.check()
  assert.ok(checkpoint.size >= 21 + 1 + 2 + 3)
  assert.deepEqual(typesOf(rest), ['AUDIT_SEAL'])
})

test('what looks like a broken AUDIT_FOREIGN, in a file that others put in the place of the trail, does not end sealing', async (t) => {
  const trail = sealedTrail(t)
  await trail.write(1)
  await trail.pollLater()
  trail.sealerDies()
  await trail.write(1)
  fs.renameSync(trail.file, `${trail.file}.1`)
  fs.writeFileSync(trail.file, '{"type":"AUDIT_FOREIGN",\n')
  trail.trail.maintain()
  await trail.write(1)
  await trail.pollLater()
  assert.deepEqual([trail.gaps, trail.faults], [[], []])
  // Three requests, AUDIT_SEAL, AUDIT_START, AUDIT_FOREIGN.
  assert.equal(trail.seals.at(-1)?.size, 6)
})

test('a link beside the trail that cannot be followed stops neither start nor sealing', async (t) => {
  const trail = sealedTrail(t)
  fs.symlinkSync('a loop', join(trail.directory, 'a loop'))
  assert.equal(recover(trail.file).unresolved, 0)
  await trail.write(1)
  await trail.pollLater()
  trail.rotate('.1')
  await trail.write(1)
  trail.rotate('.20260102T000000001Z')
  fs.rmSync(`${trail.file}.1`)
  trail.restart()
  await trail.write(1)
  await trail.pollLater()
  assert.deepEqual([trail.faults, trail.progress.unsealedRecords], [[], 0])
})

test('while the disk is full nothing is sealed, little waits in memory, and then the tree goes on', async (t) => {
  const trail = sealedTrail(t)
  await trail.write(300)
  await trail.pollLater()
  await trail.write(36_000)
  const disk = smallDisk(t)
  for (const roomBytes of [0, 100, 9000, 1_060_000]) {
    disk.roomBytes = roomBytes
    await assert.rejects(trail.poll(), /ENOSPC/)
    await assert.rejects(trail.poll(), /ENOSPC/)
    assert.ok(trail.progress.unsealedRecords < 33_500)
    assert.equal((await trail.check()).checkpoint.size, 300)
  }
  disk.roomBytes = Number.POSITIVE_INFINITY
  await trail.pollLater()
  await trail.pollLater()
  const { rest } = await trail.check()
  assert.deepEqual(typesOf(rest), ['AUDIT_SEAL'])
  assert.deepEqual([trail.gaps, trail.faults], [[], []])
})

test('a checkpoint of our key in place of our last one is named, as another gateway may write the log', async (t) => {
  const trail = sealedTrail(t)
  await trail.write(10)
  await trail.pollLater()
  const file = join(trail.log, 'checkpoint')
  const before = fs.readFileSync(file)
  await trail.write(10)
  await trail.pollLater()
  fs.writeFileSync(file, before)
  await trail.write(1)
  await trail.pollLater()
  assert.match(
    String(trail.faults),
    /checkpoint was replaced by one of the same key over 10 lines: another gateway may write this log too/,
  )
  await trail.pollLater()
  assert.equal((await trail.check()).checkpoint.size, 10 + 1 + 10 + 1 + 1)
})

test('a log that is removed under the gateway goes on with the same tree', async (t) => {
  const trail = sealedTrail(t)
  await trail.write(700)
  await trail.pollLater()
  fs.rmSync(trail.log, { recursive: true })
  await trail.write(1)
  await trail.pollLater()
  assert.match(String(trail.faults), /audit-log\/checkpoint was removed or replaced/)
  trail.restart()
  await trail.write(400)
  await trail.pollLater()
  assert.equal((await trail.check()).checkpoint.size, 700 + 1 + 1 + 1 + 400)
  assert.deepEqual([trail.gaps, fs.existsSync(join(trail.log, 'tile/0/000'))], [[], false])
  // With no log at all the trail is sealed from its beginning, which gives the same tree.
  fs.rmSync(trail.log, { recursive: true })
  trail.restart()
  await trail.poll()
  await trail.pollLater()
  assert.equal((await trail.check()).rest.length, 1)
})

for (const isCompressed of [false, true]) {
  test(`a line equal to the last sealed line is not taken for that line${isCompressed ? ', compressed' : ''}`, async (t) => {
    const trail = sealedTrail(t)
    // The clock stands still, so this segment is an AUDIT_STOP, and the next segment ends with an equal line.
    trail.rotate('.20260101T000000000Z')
    await turn()
    await trail.poll()
    trail.restart()
    const closed = `${trail.file}.20260102T000000000Z`
    trail.rotate('.20260102T000000000Z')
    await turn()
    const bytes = fs.readFileSync(closed)
    if (isCompressed) {
      fs.writeFileSync(`${closed}.zst`, zstdCompressSync(bytes))
      fs.rmSync(closed)
    }
    await trail.write(1)
    await trail.pollLater()
    fs.writeFileSync(closed, bytes)
    fs.rmSync(`${closed}.zst`, { force: true })
    assert.deepEqual(typesOf((await trail.check()).rest), ['AUDIT_SEAL', 'AUDIT_SEAL'])
  })
}

test('a log of another key, of another name or with damaged tiles is not continued, and the reason is named', async (t) => {
  const trail = sealedTrail(t)
  await trail.write(3)
  await trail.pollLater()
  const file = checkpointFile(trail.log)
  const text = fs.readFileSync(file, 'utf8')
  const refused = (reason: RegExp) => {
    trail.stopSealer()
    assert.throws(() => trail.sealer, reason)
  }
  fs.writeFileSync(file, text.replace('countersign/', 'other/'))
  refused(/checkpoint is of the log other\/.*, but the seal key and audit.origin name countersign\//)
  fs.writeFileSync(file, text.replace(/\n3\n/, '\n2\n'))
  refused(/checkpoint has a wrong signature of countersign\/.*: put the key back, or move/)
  const line = /— .*\n/.exec(text)?.[0] ?? ''
  fs.writeFileSync(file, text.replace(line, '— other AAAAAAAAAA==\n'))
  refused(/checkpoint was signed by another key/)
  fs.writeFileSync(file, text)
  const tile = join(trail.log, 'tile/0/000.p/3')
  const bytes = fs.readFileSync(tile)
  bytes[0] = (bytes[0] ?? 0) ^ 1
  fs.writeFileSync(tile, bytes)
  refused(/its tiles have another root than its checkpoint/)
  fs.rmSync(tile)
  refused(/tile\/0\/000.p\/3 is missing/)
})

test('whatever happens in whatever order, the lag is at least the age of the oldest record that no checkpoint covers', async (t) => {
  withoutSyncs(t)
  const step = fc.oneof(
    {
      weight: 3,
      arbitrary: fc.record({ do: fc.constant('write'), count: fc.integer({ min: 1, max: 600 }) }),
    },
    { weight: 6, arbitrary: fc.record({ do: fc.constant('read') }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('rotate', 'die') }) },
  )
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 40 }), async (steps) => {
      const trail = sealedTrail(t)
      /** When each line came, infinite for an AUDIT_SEAL. Lines behind the first `sealedSize` are not sealed. */
      const cameAtMs: number[] = []
      let length = 0
      const note = () => {
        const bytes = trail.files.reduce((sum, file) => sum + fs.statSync(file).size, 0)
        if (bytes === length) return
        length = bytes
        const lines = trail.text().split('\n').slice(cameAtMs.length, -1)
        for (const line of lines)
          cameAtMs.push(line.includes('"AUDIT_SEAL"') ? Number.POSITIVE_INFINITY : trail.nowMs)
      }
      let rotations = 0
      for (const one of steps) {
        trail.nowMs += 200
        if ('count' in one) await trail.write(one.count)
        else if (one.do === 'rotate') trail.rotate(`.20260101T0000${10 + rotations++}000Z`)
        else if (one.do === 'die') trail.sealerDies()
        note()
        await trail.sealer.poll()
        const oldestMs = cameAtMs.slice(trail.progress.sealedSize).find(Number.isFinite) ?? trail.nowMs
        // The writer knows what the sealer has not taken.
        const waits = trail.sealer.restMs === 0
        assert.ok(
          waits || trail.lagMs >= trail.nowMs - oldestMs,
          `${trail.lagMs} < ${trail.nowMs - oldestMs}`,
        )
        await turn()
        note()
      }
    }),
    // More lines than a checkpoint takes, so that some wait in memory.
    { numRuns: 8, examples: [[[{ do: 'write', count: 36_000 }, ...Array(110).fill({ do: 'read' })]]] },
  )
})

test('whatever happens in whatever order, the tree is that of the lines', async (t) => {
  withoutSyncs(t)
  const step = fc.oneof(
    fc.record({ do: fc.constant('write'), count: fc.integer({ min: 1, max: 600 }) }),
    fc.record({ do: fc.constantFrom('poll', 'wait', 'rotate', 'restart', 'stop') }),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
      const trail = sealedTrail(t)
      let rotations = 0
      for (const one of steps) {
        if ('count' in one) await trail.write(one.count)
        else if (one.do === 'poll') await trail.poll()
        else if (one.do === 'wait') await trail.pollLater()
        else if (one.do === 'rotate')
          trail.rotate(`.2026010${1 + (rotations % 9)}T0000${10 + rotations++}000Z`)
        else if (one.do === 'restart') trail.restart()
        else trail.stopSealer()
        await turn()
      }
      await trail.write(1)
      await trail.sealer.finish()
      await turn()
      const { rest } = await trail.check()
      assert.ok(rest.length > 0 && rest.every(({ type }) => type === 'AUDIT_SEAL'))
      assert.deepEqual([trail.gaps, trail.faults], [[], []])
    }),
    { numRuns: 15 },
  )
})

for (const [load, gatheredMs, pauses] of [
  ['light', 1000, 8],
  ['full', 1, 2],
] as const) {
  test(`a sealer under ${load} load pauses ${pauses} times in 1,024 lines, so that requests go first`, async (t) => {
    const { sealer } = new SealedTrail(temporaryDirectory(t))
    await sealer.finish()
    const { mock } = t.mock.method(Atomics, 'wait', () => 'timed-out')
    const lines = new Uint8Array(Buffer.from(requestLine('a').repeat(1024)))
    sealer.hear({ type: 'lines', lines, atMs: 0, toMs: gatheredMs })
    await sealer.poll()
    assert.equal(mock.callCount(), pauses)
  })
}
