import assert from 'node:assert/strict'
import fs, { mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import { LONGER } from '../../e2e/long-runs.ts'
import { responseTo } from '../audit-records.ts'
import { openTrail } from '../open-trail.ts'
import { recover } from '../recovery/recovery.ts'
import { endOf, type Line, requestLine, temporaryDirectory } from '../trail.test-support.ts'
import type { Trail } from '../trail.ts'
import { type Chance, PowerDisk, survivors, writeSurvivors } from './power.test-support.ts'

/** One client: when it asks, and whether it waits for the record of its request. */
interface Client {
  readonly startTurn: number
  /** Until the service responds. */
  readonly turns: number
  /** The client goes away meanwhile: both records are in one commit, and it sees nothing. */
  readonly leaves: boolean
}

interface Run {
  readonly clients: readonly Client[]
  /** Of each sync: how many turns it takes, and whether it fails. */
  readonly syncs: readonly { readonly turns: number; readonly fails: boolean }[]
  /** When the file is rotated. */
  readonly rotateTurn: number
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
  chances: fc.array(fc.nat(), { minLength: 5, maxLength: 40 }),
})

const CLIENT: Client = { startTurn: 0, turns: 0, leaves: false }
/** How long syncs fail as a run says: more turns than it takes on a disk that works. */
const FAULTY_TURNS = 60
const WORKS = { turns: 0, fails: false }
const FAILS = { turns: 0, fails: true }

/** Whole lines that are records; what a torn sector damaged is left out, and a torn last line. */
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

/** As the gateway does it: a response waits until its record is committed, or else until all that is pending is written. */
async function isRecorded(trail: Trail, record: string): Promise<boolean> {
  const commit = trail.settle(record)
  if (commit !== undefined && (await endOf(commit)) === undefined) return true
  const { promise, resolve } = Promise.withResolvers<boolean>()
  trail.whenPendingWritten((error) => resolve(error === undefined))
  return promise
}

/** Runs the clients on a disk whose power can be cut. @returns what there was at each moment, and who saw an answer, in order */
async function runClients(t: TestContext, directory: string, run: Run) {
  const seen: string[] = []
  const disk = new PowerDisk(t, directory, () => seen.length)
  let sync = 0
  const file = join(directory, 'audit.ndjson')
  const trail = openTrail({ file, durability: 'synced', onFault: () => {}, onRecord: () => {} })
  disk.nextSync = () => run.syncs[sync++ % run.syncs.length] as (typeof run.syncs)[number]
  const ends = run.clients.map(async ({ startTurn, turns, leaves }, index) => {
    for (let i = 0; i < startTurn; i++) await turn()
    const line = requestLine(`client-${index}`)
    const recorded = trail.append(line)
    if (recorded instanceof Error) return
    if (leaves) {
      trail.settle(responseTo(line, 499, 1))
      return
    }
    if ((await endOf(recorded)) !== undefined) return
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
  for (let i = 0; !isOver; i++) {
    await turn()
    if (i < FAULTY_TURNS) continue
    // Then the disk has recovered, and what is pending is tried again, as every second.
    disk.nextSync = () => WORKS
    trail.maintain()
  }
  await all
  disk.nextSync = () => WORKS
  trail.close('test')
  disk.note()
  return { moments: disk.moments, seen }
}

test('after a power cut at any moment every answer that a client saw has its pair, and every request one response', async (t) => {
  const scratch = temporaryDirectory(t)
  let cuts = 0
  await fc.assert(
    fc.asyncProperty(anyRun, async (run) => {
      const directory = join(scratch, `run-${cuts}`)
      mkdirSync(directory)
      const restored: (() => void)[] = []
      const { moments, seen } = await runClients(
        { after: (undo: () => void) => restored.push(undo) } as unknown as TestContext,
        directory,
        run,
      )
      for (const undo of restored) undo()
      for (const [index, moment] of moments.entries()) {
        cuts++
        const image = join(scratch, `cut-${cuts}`)
        mkdirSync(image)
        writeSurvivors(image, survivors(moment, chanceOf(run.chances, index)))
        const file = join(image, 'audit.ndjson')
        const { records: recovered } = recover(file)
        const files = [`${file}.1`, file]
          .filter((path) => fs.existsSync(path))
          .map((path) => readFileSync(path))
        rmSync(image, { recursive: true })
        const lines = [...files.flatMap(records), ...records(Buffer.from(recovered.join('')))]
        const of = (type: string, id: unknown) =>
          lines.filter((line) => line.type === type && line.requestId === id)
        for (const id of seen.slice(0, moment.seen)) {
          assert.equal(of('API_REQUEST', id).length, 1, `${id} was answered, and has no request`)
          assert.deepEqual(
            of('API_RESPONSE', id).map(({ statusCode }) => statusCode),
            [200],
            `${id} was answered`,
          )
        }
        // A count of open requests is believed, also where a sector before it is lost: such a response nobody saw.
        if (files.some((bytes) => bytes.includes(0))) continue
        for (const { type, requestId } of lines) {
          if (type !== 'API_REQUEST') continue
          assert.equal(of('API_RESPONSE', requestId).length, 1, `${requestId} has no response`)
        }
      }
      rmSync(directory, { recursive: true })
    }),
    {
      numRuns: 12 * LONGER,
      // The last file is not synced at a rotation: the name of the next one must be all the same.
      examples: [
        [{ clients: [CLIENT], syncs: [FAILS, WORKS, WORKS, WORKS, FAILS], rotateTurn: 0, chances: [0] }],
        // A response that is recorded while the trail cannot be written.
        [
          {
            clients: [CLIENT, { ...CLIENT, turns: 2 }],
            syncs: [WORKS, FAILS, FAILS],
            rotateTurn: 3,
            chances: [0],
          },
        ],
      ],
    },
  )
  assert.ok(cuts > 50)
})
