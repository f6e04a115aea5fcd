import assert from 'node:assert/strict'
import fs, { mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { LONGER } from '../../e2e/long-runs.ts'
import { responseTo } from '../audit-records.ts'
import { openTrail } from '../open-trail.ts'
import { recover } from '../recovery/recovery.ts'
import { sealRecord } from '../seal-records.ts'
import type { SealKey } from '../seals/seal-key.ts'
import { sealProgress } from '../seals/seal-progress.ts'
import { checkSeal, newSealKey, sealsFor } from '../seals/sealed-trail.test-support.ts'
import { Sealer } from '../seals/sealer.ts'
import { checkpointFile, logDirectory } from '../seals/tiles.ts'
import { endOf, type Line, requestLine, temporaryDirectory } from '../trail.test-support.ts'
import type { Trail } from '../trail.ts'
import { PowerDisk, withoutSyncs } from './power.test-support.ts'
import { type Chance, survivors, writeSurvivors } from './survivors.test-support.ts'

/** One client: when it asks, and whether it goes away. */
interface Client {
  readonly startTurn: number
  /** Turns until the service responds. */
  readonly turns: number
  /** The client goes away meanwhile, so both records are in one commit, and the client sees nothing. */
  readonly leaves: boolean
}

interface Run {
  readonly clients: readonly Client[]
  /** How many turns each sync takes, and whether it fails. */
  readonly syncs: readonly { readonly turns: number; readonly fails: boolean }[]
  /** When the file is rotated. */
  readonly rotateTurn: number
  /** Turns between two looks of the sealer. */
  readonly sealTurns: number
  readonly durability: 'written' | 'synced'
  /** Decides what survives. */
  readonly chances: readonly number[]
}

const anyRun: fc.Arbitrary<Run> = fc.record({
  clients: fc.array(
    fc.record({
      startTurn: fc.nat(12),
      turns: fc.nat(3),
      leaves: fc.boolean(),
    }),
    { minLength: 1, maxLength: 12 },
  ),
  syncs: fc.array(
    fc.record({ turns: fc.nat(4), fails: fc.integer({ min: 0, max: 5 }).map((n) => n === 0) }),
    { minLength: 1, maxLength: 8 },
  ),
  rotateTurn: fc.nat(30),
  sealTurns: fc.integer({ min: 1, max: 9 }),
  durability: fc.constantFrom('synced', 'synced', 'written'),
  chances: fc.array(fc.nat(), { minLength: 5, maxLength: 40 }),
})

const CLIENT: Client = { startTurn: 0, turns: 0, leaves: false }
/** Turns in which syncs fail as a run says. On a disk that works, a run takes fewer turns. */
const FAULTY_TURNS = 60
const WORKS = { turns: 0, fails: false }
const FAILS = { turns: 0, fails: true }

/** Lines that are records, without a torn last line and lines that a torn sector damaged. */
function records(bytes: Buffer): Line[] {
  return bytes
    .toString()
    .split('\n')
    .slice(0, -1)
    .flatMap((line): Line[] => {
      try {
        return [JSON.parse(line)]
      } catch {
        return []
      }
    })
}

function chanceOf(numbers: readonly number[], from: number): Chance {
  let next = from
  return (bound) => (numbers[next++ % numbers.length] as number) % bound
}

/** As in the gateway, a response waits until its record is committed, or else until nothing is pending. */
async function isRecorded(trail: Trail, record: string): Promise<boolean> {
  const commit = trail.settle(record)
  if (commit !== undefined && (await endOf(commit)) === undefined) return true
  const { promise, resolve } = Promise.withResolvers<boolean>()
  trail.whenPendingWritten((error) => resolve(error === undefined))
  return promise
}

const silent = { onFault: () => {}, onRecord: () => {} }

/** Makes a sealer that seals at each look at the clock. The sealed lines must be there. */
function sealerOf(trail: Trail, key: SealKey): Sealer {
  let nowMs = 0
  const { file } = trail
  const progress = sealProgress()
  const sealer = new Sealer({
    file,
    directory: logDirectory(file),
    key,
    progress,
    now: () => (nowMs += 1000),
    onSealed: ({ origin, size, root }) => {
      const timestamp = '2026-01-02T03:04:05.678Z'
      trail.settle(sealRecord(timestamp, origin, { type: 'AUDIT_SEAL', size, root: root.toString('base64') }))
    },
    onGap: (gap) => assert.fail(`a gap: ${JSON.stringify(gap)}`),
    onReadBack: () => {},
    onFault: assert.fail,
  })
  trail.sealWith(sealsFor(sealer, trail, () => nowMs, progress))
  return sealer
}

/** Goes on with what a power cut has left. */
async function sealRest(file: string, key: SealKey): Promise<void> {
  const trail = openTrail({ file, ...silent })
  const sealer = sealerOf(trail, key)
  await sealer.finish()
  sealer.close()
  trail.close('test')
  await checkSeal(file, key)
}

/** @returns the disk at each moment, who saw an answer, in order, and who was refused */
async function runClients(t: TestContext, directory: string, run: Run, key: SealKey) {
  const seen: string[] = []
  const refused = new Set<unknown>()
  const disk = new PowerDisk(t, directory, () => seen.length)
  let sync = 0
  const file = join(directory, 'audit.ndjson')
  const trail = openTrail({ file, durability: run.durability, ...silent })
  const sealer = sealerOf(trail, key)
  disk.nextSync = () => run.syncs[sync++ % run.syncs.length] as (typeof run.syncs)[number]
  const ends = run.clients.map(async ({ startTurn, turns, leaves }, index) => {
    for (let i = 0; i < startTurn; i++) await turn()
    const line = requestLine(`client-${index}`)
    const recorded = trail.append(line)
    if (recorded instanceof Error) return
    if (leaves) trail.settle(responseTo(line, 499, 1))
    if ((await endOf(recorded)) !== undefined) refused.add(`client-${index}`)
    if (leaves || refused.has(`client-${index}`)) return
    for (let i = 0; i < turns; i++) await turn()
    if (!(await isRecorded(trail, responseTo(line, 200, 1)))) return
    seen.push(`client-${index}`)
    disk.note()
  })
  const rotated = (async () => {
    for (let i = 0; i < run.rotateTurn; i++) await turn()
    fs.renameSync(file, `${file}.1`)
    trail.reopen()
  })()
  let isOver = false
  const all = Promise.all([...ends, rotated]).finally(() => {
    isOver = true
  })
  const sealed = (async () => {
    while (!isOver) {
      // A failed poll is tried again. Between a renaming and the new file there is no file.
      await sealer.poll().catch((error: Error) => assert.match(error.message, /EIO|ENOENT/))
      for (let i = 0; i < run.sealTurns; i++) await turn()
    }
  })()
  for (let i = 0; !isOver; i++) {
    await turn()
    if (i < FAULTY_TURNS) continue
    // Now the disk has recovered, and what is pending is tried again, as a gateway does each second.
    disk.nextSync = () => WORKS
    trail.maintain()
  }
  await Promise.all([all, sealed])
  disk.nextSync = () => WORKS
  // A rotation that found the trail busy is tried again.
  while (!fs.existsSync(file)) await turn()
  // A sync that failed for the trail is told to the sealer, too.
  await sealer.finish().catch(() => sealer.finish())
  sealer.close()
  trail.close('test')
  disk.note()
  disk.putBack()
  return { moments: disk.moments, inodes: disk.inodes, seen, refused }
}

test('after a power cut at any moment every answer that a client saw has its pair, every request one response, and no lost line is sealed', async (t) => {
  const scratch = temporaryDirectory(t)
  withoutSyncs(t)
  const key = newSealKey(scratch)
  let runs = 0
  let cuts = 0
  await fc.assert(
    fc.asyncProperty(anyRun, async (run) => {
      const directory = join(scratch, `run-${runs++}`)
      mkdirSync(directory)
      const { moments, inodes, seen, refused } = await runClients(t, directory, run, key)
      for (const [index, moment] of moments.entries()) {
        // Only a long run tries every moment.
        if (LONGER === 1 && (index + runs) % 3 > 0) continue
        cuts++
        const image = join(scratch, `cut-${cuts}`)
        mkdirSync(image)
        writeSurvivors(image, survivors(moment, chanceOf(run.chances, index)), inodes)
        const file = join(image, 'audit.ndjson')
        const { records: recovered } = recover(file)
        const isSealed = fs.existsSync(checkpointFile(logDirectory(file)))
        // No checkpoint covers a lost line.
        if (isSealed) await checkSeal(file, key)
        const files = [`${file}.1`, file]
          .filter((path) => fs.existsSync(path))
          .map((path) => readFileSync(path))
        if (index % 16 === cuts % 16) await sealRest(file, key)
        rmSync(image, { recursive: true })
        // If the disk failed before it had the cut, a line that was moved to the new file is still in the old one, too.
        const [before, ...after] = files.map(records)
        const isTwice = (line: Line) => before?.some((other) => isDeepStrictEqual(line, other))
        const inFiles = [...(before ?? []), ...after.flat().filter((line) => !isTwice(line))]
        const lines = [...inFiles, ...records(Buffer.from(recovered.join('')))]
        const of = (type: string, id: unknown) =>
          lines.filter((line) => line.type === type && line.requestId === id)
        for (const id of run.durability === 'synced' ? seen.slice(0, moment.seen) : []) {
          assert.equal(of('API_REQUEST', id).length, 1, `${id} was answered, and has no request`)
          assert.deepEqual(
            of('API_RESPONSE', id).map(({ statusCode }) => statusCode),
            [200],
            `${id} was answered`,
          )
        }
        // `written` promises nothing here. If a lost sector held a response, a later count of open requests hides that.
        if (run.durability === 'written' || files.some((bytes) => bytes.includes(0))) continue
        for (const { type, requestId } of lines) {
          if (type !== 'API_REQUEST') continue
          // If the disk failed before it had the cut, a refused request still stands alone in the old file.
          const isLeft = after.length > 0 && before?.some((line) => line.requestId === requestId)
          if (isLeft && refused.has(requestId)) continue
          assert.equal(of('API_RESPONSE', requestId).length, 1, `${requestId} has no response`)
        }
      }
      rmSync(directory, { recursive: true })
    }),
    {
      numRuns: 6 * LONGER,
      endOnFailure: true,
      // The old file is not synced at this rotation, but the name of the next one must be.
      examples: [
        [
          {
            clients: [CLIENT],
            syncs: [FAILS, WORKS, WORKS, WORKS, FAILS],
            rotateTurn: 0,
            sealTurns: 99,
            durability: 'synced',
            chances: [0],
          },
        ],
        // A response that is recorded while the trail cannot be written.
        [
          {
            clients: [CLIENT, { ...CLIENT, turns: 2 }],
            syncs: [WORKS, FAILS, FAILS],
            rotateTurn: 3,
            sealTurns: 99,
            durability: 'synced',
            chances: [0],
          },
        ],
      ],
    },
  )
  assert.ok(cuts > 50)
})
