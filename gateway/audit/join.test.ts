import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import type { Durability } from '../config/settings.ts'
import { joinTrail, openTrail } from './open-trail.ts'
import { endOf, type Line, linesOf, requestLine, temporaryDirectory, unpaired } from './trail.test-support.ts'
import type { Trail } from './trail.ts'
import type { WriterData, Written } from './writer.test-support.ts'

const DURABILITIES: readonly Durability[] = ['written', 'synced', 'buffered']
const WRITER = new URL('./writer.test-support.ts', import.meta.url)
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
  test(`${durability}: threads that write one trail through rotations leave every line whole and every pair matched`, async (t) => {
    const file = join(temporaryDirectory(t), 'audit.ndjson')
    const count = durability === 'synced' ? 300 : 3000
    const trail = openTrail({ file, durability, threads: 3, ...silent })
    const writers = ['a', 'b', 'c'].map((name) =>
      startWriter(t, { handle: trail.handle, durability, name, count }),
    )
    let rotations = 0
    const ended = Promise.all(writers.map(endOfWriter)).finally(() => {
      rotations = -rotations
    })
    for (let i = 0; rotations >= 0 && i < 1e6; i++) {
      await turn()
      if (i % 100 === 0 && existsSync(file)) rotate(trail, file, rotations++)
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

  test(`${durability}: a thread that is terminated anywhere blocks no other, and its open requests are settled at once`, async (t) => {
    const file = join(temporaryDirectory(t), 'audit.ndjson')
    const trail = openTrail({ file, durability, threads: 2, onFault: () => {}, onRecord: () => {} })
    const steady = startWriter(t, {
      handle: trail.handle,
      durability,
      name: 'steady',
      count: durability === 'synced' ? 400 : 4000,
    })
    const ended = endOfWriter(steady)
    let settled = 0
    for (let round = 0; round < 6; round++) {
      const doomed = startWriter(t, { handle: trail.handle, durability, name: `doomed-${round}` })
      const { threadId } = doomed
      while (!(existsSync(file) && readFileSync(file, 'latin1').includes(`"doomed-${round}-30"`)))
        await turn()
      await doomed.terminate()
      settled += trail.settleDeadWorker(threadId)
      assert.equal(trail.settleDeadWorker(threadId), 0)
    }
    const { accepted, refused } = await ended
    while (!trail.recheck()) await turn()
    trail.close('end')
    const lines = linesOf(file)
    assert.deepEqual(unpaired(lines), [])
    assert.equal(lines.filter(({ recovered }) => recovered === true).length, settled)
    assert.ok(settled >= 60, String(settled))
    assert.ok(
      lines.every(({ recovered, requestId }) => recovered !== true || String(requestId).startsWith('doomed')),
    )
    assert.equal(lines.filter(({ requestId }) => String(requestId).startsWith('steady')).length, 2 * accepted)
    assert.ok(durability === 'synced' || refused === 0)
    assert.deepEqual([lines.at(-1)?.type, lines.at(-1)?.open], ['AUDIT_STOP', 0])
  })
}

/** A process with three threads, for which `onUnwritable` is done whenever the trail cannot be written. */
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
    const trail = openTrail({ file, durability, threads: 3, onFault() {}, onRecord() {} })
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
  test(`${durability}: a disk that is full again and again under three threads leaves no torn line and every pair`, async (t) => {
    const file = join(temporaryDirectory(t), 'audit.ndjson')
    const body = `
      const workers = start({ count: 200 })
      const results = Promise.all(workers.map((worker) => new Promise((resolve) => worker.once('message', resolve))))
      let rotations = 0
      // Now and then the room is there only a while after it was needed.
      const timer = setInterval(() => {
        if (!(fs.statSync(file, { throwIfNoEntry: false })?.size > 7000)) return
        fs.renameSync(file, file + '.' + rotations++)
        trail.reopen()
      }, 10)
      const written = await results
      clearInterval(timer)
      while (!trail.recheck()) await new Promise((resolve) => setTimeout(resolve, 5))
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
    let told = ''
    for await (const chunk of child.stdout) told += String(chunk)
    const { written, rotations } = JSON.parse(told) as { written: Written[]; rotations: number }
    const lines = allLines(file)
    assert.deepEqual(unpaired(lines), [])
    const accepted = written.reduce((sum, { accepted }) => sum + accepted, 0)
    const refused = written.reduce((sum, { refused }) => sum + refused, 0)
    assert.equal(accepted, 600)
    assert.equal(countOf(lines, 'API_REQUEST'), accepted)
    assert.ok(refused > 0 && rotations > 2, told)
    assert.deepEqual([lines.at(-1)?.type, lines.at(-1)?.open], ['AUDIT_STOP', 0])
  })
}

for (const durability of ['written', 'synced'] as const) {
  test(`${durability}: a process killed with three threads at work leaves every accepted request in the trail, and no torn line`, async (t) => {
    const file = join(temporaryDirectory(t), 'audit.ndjson')
    const program = processOf(file, 'start({ acknowledges: true })')
    const child = spawn(process.execPath, [...LOADER, program, durability], {
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    t.after(() => child.kill('SIGKILL'))
    const exited = once(child, 'exit')
    let told = ''
    for await (const chunk of child.stdout) {
      told += String(chunk)
      if (told.length > 5000) child.kill('SIGKILL')
    }
    // Its output is closed before its lock is given back.
    await exited
    const acknowledged = told.slice(0, told.lastIndexOf('\n')).split('\n')
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

test('joining without a free seat is an error that names the file, and a released seat can be taken', async (t) => {
  const file = join(temporaryDirectory(t), 'audit.ndjson')
  const trail = openTrail({ file, threads: 1, ...silent })
  const joined = joinTrail(trail.handle, silent)
  assert.throws(() => joinTrail(trail.handle, silent), /audit\.ndjson has no seat left/)
  joined.close('end')
  const second = joinTrail(trail.handle, silent)
  assert.equal(await endOf(second.append(requestLine('a'))), undefined)
  second.reopen()
  second.close('end')
  assert.deepEqual(
    linesOf(file).map(({ type }) => type),
    ['AUDIT_START', 'API_REQUEST'],
  )
})
