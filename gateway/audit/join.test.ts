import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as afterMs, setImmediate as turn } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import type { Durability } from '../config/settings.ts'
import { LONGER } from '../e2e/long-runs.ts'
import { responseTo } from './audit-records.ts'
import { SharedTrail } from './file/shared-trail.ts'
import { joinTrail, openTrail } from './open-trail.ts'
import { endOf, type Line, linesOf, requestLine, temporaryDirectory, unpaired } from './trail.test-support.ts'
import type { Trail } from './trail.ts'
import type { WriterData, Written } from './writer.test-support.ts'

const DURABILITIES: readonly Durability[] = ['written', 'synced', 'buffered']
const WRITER = new URL('./writer.test-support.ts', import.meta.url)
/** Most of the CPU goes into starting threads. */
const ROUNDS = LONGER === 1 ? 1 : 3
const silent = { onFault: assert.fail, onRecord: () => {} }

function startWriter(t: TestContext, data: WriterData): Worker {
  const worker = new Worker(WRITER, {
    workerData: data,
    execArgv: ['--no-warnings'],
  })
  t.after(() => worker.terminate())
  return worker
}

async function endOfWriter(worker: Worker): Promise<Written> {
  const [written] = await once(worker, 'message')
  return written as Written
}

/** Every line of a trail that was rotated into `.0`, `.1` … */
function allLines(file: string): Line[] {
  const rotated = readdirSync(dirname(file))
    .filter((name) => name.startsWith(`${basename(file)}.`) && /\d$/.test(name))
    .sort((one, other) => Number(one.split('.').at(-1)) - Number(other.split('.').at(-1)))
  return [...rotated.map((name) => join(dirname(file), name)), file].flatMap((name) => linesOf(name))
}

function countOf(lines: readonly Line[], type: string): number {
  return lines.filter((line) => line.type === type).length
}

function rotate(trail: Trail, file: string, count: number): void {
  renameSync(file, `${file}.${count}`)
  trail.reopen()
}

for (const durability of DURABILITIES) {
  test(`${durability}: threads that share a trail through rotations leave every line whole and every pair matched`, async (t) => {
    const file = join(temporaryDirectory(t), 'audit.ndjson')
    const count = (durability === 'synced' ? 100 : 1000) * ROUNDS
    const trail = openTrail({ file, durability, ...silent })
    const writers = ['a', 'b', 'c'].map((name) =>
      startWriter(t, { handle: trail.handle, durability, name, count }),
    )
    let rotations = 0
    const ended = Promise.all(writers.map(endOfWriter)).finally(() => {
      rotations = -rotations
    })
    while (rotations >= 0) {
      await afterMs(1)
      if (rotations >= 0 && existsSync(file)) rotate(trail, file, rotations++)
    }
    const results = await ended
    while (!existsSync(file)) await turn()
    trail.close('end')
    const lines = allLines(file)
    assert.deepEqual(unpaired(lines), [])
    assert.equal(countOf(lines, 'API_REQUEST'), 3 * count)
    assert.deepEqual(
      results.map(({ accepted, refused, recorded }) => [accepted, refused, recorded]),
      Array(3).fill([count, 0, 2 * count]),
    )
    assert.ok(rotations < -2, String(rotations))
    assert.deepEqual([lines.at(-1)?.type, lines.at(-1)?.open], ['AUDIT_STOP', 0])
  })

  test(`${durability}: a thread terminated at any moment blocks no other, and each of its open requests gets one response at once`, async (t) => {
    const file = join(temporaryDirectory(t), 'audit.ndjson')
    const trail = openTrail({ file, durability, onFault: () => {}, onRecord: () => {} })
    const steady = startWriter(t, {
      handle: trail.handle,
      durability,
      name: 'steady',
      count: (durability === 'synced' ? 150 : 1500) * ROUNDS,
    })
    const ended = endOfWriter(steady)
    let settled = 0
    for (let round = 0; round < ROUNDS; round++) {
      const names = [`doomed-${round}-a`, `doomed-${round}-b`]
      const doomed = names.map((name) => startWriter(t, { handle: trail.handle, durability, name }))
      const threads = doomed.map(({ threadId }) => threadId)
      const isBusy = (text: string) => names.every((name) => text.includes(`"${name}-30"`))
      while (!(existsSync(file) && isBusy(readFileSync(file, 'latin1')))) await afterMs(1)
      await Promise.all(doomed.map((worker) => worker.terminate()))
      // The responses for the first are still to be written when the second is settled.
      for (const thread of threads) settled += trail.settleDeadWorker(thread)
    }
    const { accepted, refused } = await ended
    while (!trail.recheck()) await turn()
    trail.close('end')
    const lines = linesOf(file)
    assert.deepEqual(unpaired(lines), [])
    assert.equal(lines.filter(({ recovered }) => recovered === true).length, settled)
    assert.ok(settled >= 20 * ROUNDS, String(settled))
    assert.ok(
      lines.every(({ recovered, requestId }) => recovered !== true || String(requestId).startsWith('doomed')),
    )
    assert.equal(lines.filter(({ requestId }) => String(requestId).startsWith('steady')).length, 2 * accepted)
    assert.ok(durability === 'synced' || refused === 0)
    assert.deepEqual([lines.at(-1)?.type, lines.at(-1)?.open], ['AUDIT_STOP', 0])
  })
}

/** A program with a trail, and a function that starts three threads that write to it. */
function processOf(file: string, body: string): string {
  const path = `${file}.program.mts`
  const from = (name: string) => JSON.stringify(new URL(name, import.meta.url).href)
  writeFileSync(
    path,
    `
    import fs from 'node:fs'
    import { Worker } from 'node:worker_threads'
    import { openTrail } from ${from('./open-trail.ts')}
    const file = ${JSON.stringify(file)}
    const [durability] = process.argv.slice(2)
    const trail = openTrail({ file, durability, onFault() {}, onRecord() {} })
    const start = (data) => ['a', 'b', 'c'].map((name) => new Worker(new URL(${from('./writer.test-support.ts')}), {
      workerData: { handle: trail.handle, durability, name, ...data },
    }))
    ${body}
    `,
  )
  return path
}

const env = { ...process.env, NODE_V8_COVERAGE: '' }
const LOADER = ['--no-warnings']

for (const durability of DURABILITIES) {
  test(`${durability}: three threads on a disk that is full again and again leave no torn line and every pair`, async (t) => {
    const file = join(temporaryDirectory(t), 'audit.ndjson')
    const body = `
      const workers = start({ count: 200 })
      const results = Promise.all(workers.map((worker) => new Promise((resolve) => worker.once('message', resolve))))
      let rotations = 0
      // Room often comes some time after it was needed.
      const isFull = () => fs.statSync(file, { throwIfNoEntry: false })?.size > 7000
      const timer = setInterval(() => {
        if (!isFull()) return
        fs.renameSync(file, file + '.' + rotations++)
        trail.reopen()
      }, 10)
      const written = await results
      // The last rotation may still be under way, and AUDIT_STOP needs room.
      while (!fs.existsSync(file) || isFull() || !trail.recheck()) await new Promise((resolve) => setTimeout(resolve, 5))
      clearInterval(timer)
      trail.close('end')
      console.log(JSON.stringify({ written, rotations }))
      process.exit(0)
    `
    const program = processOf(file, body)
    const child = spawn(
      'sh',
      ['-c', 'ulimit -f 16; exec "$0" "$@"', process.execPath, ...LOADER, program, durability],
      { env, stdio: ['ignore', 'pipe', 'inherit'] },
    )
    t.after(() => child.kill('SIGKILL'))
    let output = ''
    for await (const chunk of child.stdout) output += String(chunk)
    const { written, rotations } = JSON.parse(output) as { written: Written[]; rotations: number }
    const lines = allLines(file)
    assert.deepEqual(unpaired(lines), [])
    const accepted = written.reduce((sum, { accepted }) => sum + accepted, 0)
    const refused = written.reduce((sum, { refused }) => sum + refused, 0)
    assert.equal(accepted, 600)
    assert.equal(countOf(lines, 'API_REQUEST'), accepted)
    assert.ok(refused > 0 && rotations > 2, output)
    assert.deepEqual([lines.at(-1)?.type, lines.at(-1)?.open], ['AUDIT_STOP', 0])
  })
}

for (const durability of ['written', 'synced'] as const) {
  test(`${durability}: a killed process with three threads leaves every accepted request in the trail and no torn line`, async (t) => {
    const file = join(temporaryDirectory(t), 'audit.ndjson')
    const program = processOf(file, 'start({ acknowledges: true })')
    const child = spawn(process.execPath, [...LOADER, program, durability], {
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    t.after(() => child.kill('SIGKILL'))
    const exited = once(child, 'exit')
    let output = ''
    for await (const chunk of child.stdout) {
      output += String(chunk)
      if (output.length > 5000) child.kill('SIGKILL')
    }
    // The output closes before the lock is released.
    await exited
    const acknowledged = output.slice(0, output.lastIndexOf('\n')).split('\n')
    openTrail({ file, ...silent }).close('end')
    const lines = linesOf(file)
    assert.deepEqual(unpaired(lines), [])
    const ids = new Set(lines.map(({ requestId }) => requestId))
    assert.deepEqual(
      acknowledged.filter((id) => !ids.has(id)),
      [],
    )
    assert.ok(lines.filter(({ recovered }) => recovered === true).length >= 20)
  })
}

test('a thread that leaves the trail neither rotates nor ends it', async (t) => {
  const file = join(temporaryDirectory(t), 'audit.ndjson')
  const trail = openTrail({ file, ...silent })
  const joined = joinTrail(trail.handle, silent)
  assert.equal(await endOf(joined.append(requestLine('a'))), undefined)
  joined.reopen()
  joined.close('end')
  assert.deepEqual(
    linesOf(file).map(({ type }) => type),
    ['AUDIT_START', 'API_REQUEST'],
  )
})

/** Index of the word of the commit lock: its holder's `threadId`, plus 1. */
const COMMIT_LOCK = 1
const OTHER = 77

/** A trail with an open request of a joined thread, while another thread has the commit lock. */
async function duringCommitOfAnother(t: TestContext, timeoutMs: number) {
  const file = join(temporaryDirectory(t), 'audit.ndjson')
  const faults: string[] = []
  const options = {
    durability: 'synced',
    onFault: ({ message }: Error) => faults.push(message),
    onRecord() {},
  } as const
  const trail = openTrail({ file, ...options })
  const joined = joinTrail(trail.handle, { ...options, timeoutMs })
  const request = requestLine('a')
  assert.equal(await endOf(joined.append(request)), undefined)
  const other = new SharedTrail(trail.handle.shared)
  assert.ok(other.takeCommitLock())
  other.startCommit()
  const words = new Int32Array(trail.handle.shared)
  words[COMMIT_LOCK] = OTHER + 1
  joined.settle(responseTo(request, 200, 1))
  // Its group waits for a turn, and then for the other's commit.
  await turn()
  await turn()
  return { file, trail, joined, faults, words }
}

test('synced: lines that waited for the commit of another thread are written when it ends, not a turn later', async (t) => {
  const { file, trail, joined, words } = await duringCommitOfAnother(t, 60_000)
  const before = linesOf(file).length
  const freed = new SharedTrail(trail.handle.shared).commitLockFreed()
  Atomics.store(words, COMMIT_LOCK, 0)
  Atomics.notify(words, COMMIT_LOCK)
  await freed
  assert.equal(linesOf(file).length, before + 1)
  joined.close('end')
})

test('synced: a thread that closes writes its last lines when the other threads have committed theirs', async (t) => {
  const { file, joined, faults, words } = await duringCommitOfAnother(t, 60_000)
  const code = `
    const { workerData: words } = require('node:worker_threads')
    Atomics.store(words, ${COMMIT_LOCK}, 0)
    Atomics.notify(words, ${COMMIT_LOCK})`
  const passing = new Worker(code, { eval: true, workerData: words, execArgv: ['--no-warnings'] })
  joined.close('end')
  await once(passing, 'exit')
  assert.deepEqual(faults, [])
  assert.deepEqual(unpaired(linesOf(file)), [])
  assert.equal(words[COMMIT_LOCK], 0)
})

test('synced: a thread that closes writes nothing that a failed commit of another would cut off, and says so', async (t) => {
  const { file, trail, joined, faults } = await duringCommitOfAnother(t, 20)
  joined.close('end')
  trail.settleDeadWorker(OTHER)
  assert.deepEqual(faults, ['1 audit records could not be written before the end'])
  assert.deepEqual(
    linesOf(file).map(({ type }) => type),
    ['AUDIT_START', 'API_REQUEST'],
  )
  trail.close('end')
  assert.equal(linesOf(file).at(-1)?.open, 1)
})

test('a trail is not handed over while another thread has held it for too long, and goes on', async (t) => {
  const file = join(temporaryDirectory(t), 'audit.ndjson')
  const trail = openTrail({ file, durability: 'synced', timeoutMs: 20, ...silent })
  const words = new Int32Array(trail.handle.shared)
  words[COMMIT_LOCK] = OTHER + 1
  assert.match(String(await trail.suspend('restart')), /another thread has held the audit file for too long/)
  Atomics.store(words, COMMIT_LOCK, 0)
  Atomics.notify(words, COMMIT_LOCK)
  assert.equal(await endOf(trail.append(requestLine('a'))), undefined)
  assert.deepEqual(
    linesOf(file).map(({ type }) => type),
    ['AUDIT_START', 'API_REQUEST'],
  )
  assert.throws(() => openTrail({ file, ...silent }), /is being written by another process/)
  trail.close('end')
})
