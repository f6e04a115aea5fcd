import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { Worker } from 'node:worker_threads'
import type { Durability } from '../../config/settings.ts'
import { storeRecord } from '../audit-records.ts'
import { continueTrail, openTrail } from '../open-trail.ts'
import { endOf, linesOf, requestLine, temporaryDirectory } from '../trail.test-support.ts'
import type { Trail } from '../trail.ts'
import { makeSealKey, readKeyFiles, sealKeyOf } from './seal-key.ts'
import { checkSeal } from './sealed-trail.test-support.ts'
import { Sealing } from './sealing.ts'
import { logDirectory } from './tiles.ts'

const silent = { onFault: assert.fail, onRecord: () => {} }

/** A directory for a trail, with a key, and what seals a trail there. */
function sealedDirectory(t: TestContext, durability: Durability = 'written') {
  const directory = temporaryDirectory(t)
  const file = join(directory, 'audit.ndjson')
  const keyFile = join(directory, 'key.pem')
  makeSealKey(keyFile)
  const keys = readKeyFiles(keyFile)
  const sealKey = sealKeyOf(keys)
  const faults: string[] = []
  const readBack: number[] = []
  const seal = (trail: Trail) => {
    const sealing = new Sealing({
      trail,
      directory: logDirectory(file),
      keys,
      origin: sealKey.origin,
      now: Date.now,
      // For a busy machine.
      finishMs: 60_000,
      onSealed: () => {},
      onGap: () => assert.fail(),
      onReadBack: (records) => readBack.push(records),
      onFault: (cause) => faults.push(cause),
    })
    trail.sealWith(sealing)
    return sealing
  }
  const check = () => checkSeal(file, sealKey)
  const ends = () =>
    linesOf(file)
      .map(({ type }) => type)
      .filter((type) => type.startsWith('AUDIT'))
  return {
    options: { file, durability, isSealed: true, ...silent },
    file,
    seal,
    check,
    ends,
    faults,
    readBack,
  }
}

for (const durability of ['written', 'synced'] as const) {
  test(`a process that hands its trail over seals it to the end, and the other goes on with the tree (${durability})`, async (t) => {
    const { options, seal, check, ends, faults } = sealedDirectory(t, durability)
    const before = openTrail(options)
    seal(before)
    await endOf(before.append(requestLine('a')))
    assert.equal(await before.suspend('restart'), undefined)
    assert.deepEqual([faults, ends()], [[], ['AUDIT_START', 'AUDIT_STOP', 'AUDIT_SEAL']])
    assert.equal((await check()).checkpoint.size, 3)
    const { trail, inherited } = continueTrail(options)
    const sealing = seal(trail)
    inherited.end()
    await trail.end('end')
    const { checkpoint, rest } = await check()
    assert.deepEqual(ends().slice(3), ['AUDIT_START', 'AUDIT_STOP', 'AUDIT_SEAL'])
    assert.deepEqual([checkpoint.size, rest.length, sealing.sealedSize], [7, 1, 7])
    assert.deepEqual(faults, [])
  })
}

test('a process that takes its trail back goes on sealing', async (t) => {
  const { options, seal, check, ends } = sealedDirectory(t)
  const trail = openTrail(options)
  seal(trail)
  await trail.suspend('restart')
  trail.goOn()
  await endOf(trail.append(requestLine('a')))
  await trail.end('end')
  assert.deepEqual(ends().slice(2), ['AUDIT_SEAL', 'AUDIT_START', 'AUDIT_STOP', 'AUDIT_SEAL'])
  assert.equal((await check()).rest.length, 1)
})

test('a record that comes while the last seal is made is not written, so nothing stands behind the seal', async (t) => {
  const { options, seal, ends, faults } = sealedDirectory(t)
  const lost: string[] = []
  const trail = openTrail({ ...options, onFault: ({ message }) => lost.push(message) })
  seal(trail)
  const ended = trail.end('end')
  await turn()
  trail.settle(storeRecord({ type: 'STORE_DEGRADED', timestamp: new Date().toISOString(), store: 'shared' }))
  await ended
  assert.deepEqual(ends(), ['AUDIT_START', 'AUDIT_STOP', 'AUDIT_SEAL'])
  assert.deepEqual([lost, faults], [['1 audit record could not be written before the end'], []])
  openTrail({ ...options, onForeign: () => assert.fail() }).close('end')
})

/** A sealing whose threads cannot seal, and whose clocks stand still. */
function stuckSealing(t: TestContext) {
  const directory = sealedDirectory(t)
  writeFileSync(logDirectory(directory.file), 'no directory')
  const steady = { ms: 1000 }
  t.mock.method(process.hrtime, 'bigint', () => BigInt(steady.ms * 1_000_000))
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const trail = openTrail(directory.options)
  const nextThread = () => once(process, 'worker') as Promise<[Worker]>
  let started = nextThread()
  const sealing = directory.seal(trail)
  const endThread = async () => {
    const [thread] = await started
    await once(thread, 'online')
    await thread.terminate()
    await turn()
    started = nextThread()
  }
  return { ...directory, steady, trail, sealing, endThread, hasStarted: () => started }
}

test('a thread that dies is replaced, and until then the lag says so', async (t) => {
  const { file, check, faults, steady, trail, sealing, endThread, hasStarted } = stuckSealing(t)
  await endThread()
  faults.length = 0
  rmSync(logDirectory(file))
  // The threads have the real clock, by which the machine has run for longer.
  steady.ms += 5000
  assert.equal(sealing.lagMs, 5000)
  t.mock.timers.tick(1000)
  await hasStarted()
  await trail.end('end')
  assert.equal((await check()).rest.length, 1)
  assert.deepEqual([sealing.lagMs, faults], [0, []])
})

test('the lag keeps growing when threads die that have sealed nothing', async (t) => {
  const { steady, trail, sealing, endThread, hasStarted } = stuckSealing(t)
  for (const restartMs of [1000, 2000, 4000]) {
    await endThread()
    steady.ms += 60_000
    t.mock.timers.tick(restartMs)
  }
  await hasStarted()
  const { lagMs } = sealing
  await trail.end('end')
  assert.equal(lagMs, 180_000)
})

test('what is not sealed in time at the end is sealed at the next start', async (t) => {
  const { options, seal, check, ends, faults } = sealedDirectory(t)
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const before = openTrail(options)
  seal(before)
  await endOf(before.append(requestLine('a')))
  const ended = before.end('end')
  t.mock.timers.tick(3_600_000)
  await ended
  assert.match(String(faults), /could not be sealed in time: the next start seals them$/)
  t.mock.timers.reset()
  const trail = openTrail(options)
  seal(trail)
  await trail.end('end')
  assert.deepEqual(ends().slice(-3), ['AUDIT_START', 'AUDIT_STOP', 'AUDIT_SEAL'])
  const { checkpoint, rest } = await check()
  assert.deepEqual([faults.length, rest.length], [1, 1])
  assert.ok(checkpoint.size >= 5)
})

test('where nothing can be sealed, the trail is written all the same, and has no seal at its end', async (t) => {
  const { options, file, seal, ends, faults } = sealedDirectory(t)
  writeFileSync(logDirectory(file), 'no directory')
  const trail = openTrail(options)
  seal(trail)
  await endOf(trail.append(requestLine('a')))
  await trail.end('end')
  assert.deepEqual(ends(), ['AUDIT_START', 'AUDIT_STOP'])
  assert.ok(faults.length > 0)
  assert.match(String(faults[0]), /ENOTDIR/)
})

test('a pipe in the place of a file that the log is to write is a fault, and does not delay the end', async (t) => {
  const { options, seal, faults, check } = sealedDirectory(t)
  const trail = openTrail(options)
  mkdirSync(logDirectory(options.file))
  const pipe = join(logDirectory(options.file), 'checkpoint.tmp')
  execFileSync('mkfifo', [pipe])
  const sealing = seal(trail)
  while (faults.length === 0) await turn()
  assert.match(faults.join(), /ENXIO/)
  // Without the pipe, the next try succeeds.
  rmSync(pipe, { force: true })
  while (sealing.sealedSize === 0) await turn()
  execFileSync('mkfifo', [pipe])
  await trail.end('end')
  assert.equal((await check()).checkpoint.size, 1)
})
