import assert from 'node:assert/strict'
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { recoveredRecord, startRecord } from '../audit/audit-records.ts'
import { recover } from '../audit/recovery/recovery.ts'
import { segmentsOfTrail } from '../audit/segments/trail-segments.ts'
import { requestLine, temporaryDirectory } from '../audit/trail.test-support.ts'
import { exportLog } from './export-log.ts'
import { reportDay } from './records/day-report.ts'
import { findRecords } from './records/find-records.ts'
import { SealedTrail } from './sealed-trail.test-support.ts'
import { trailsOf } from './trail-files.ts'
import { trustedKey } from './verify/trusted-key.ts'
import { verifyTrail } from './verify/verify-trail.ts'

type Sync = 'openSync' | 'statSync' | 'lstatSync' | 'readdirSync'

/** Counts the files that are opened or looked at, and the names in the directories that are listed. */
function countFileCalls(t: TestContext): () => number {
  let calls = 0
  const names: readonly Sync[] = ['openSync', 'statSync', 'lstatSync', 'readdirSync']
  const originals = Object.fromEntries(names.map((name) => [name, fs[name]]))
  for (const name of names) {
    const original = fs[name] as (...args: unknown[]) => unknown
    const counted = (...args: unknown[]) => {
      const result = original(...args)
      calls += Array.isArray(result) ? result.length : 1
      return result
    }
    Object.assign(fs, { [name]: counted })
  }
  syncBuiltinESMExports()
  t.after(() => {
    Object.assign(fs, originals)
    syncBuiltinESMExports()
  })
  return () => calls
}

async function trailOf(t: TestContext, segments: number, compression: 'none' | 'zstd'): Promise<SealedTrail> {
  const dir = temporaryDirectory(t)
  const trail = new SealedTrail(join(dir, 'trail'))
  trail.start()
  trail.request()
  for (let i = 1; i < segments; i++) {
    trail.exchange()
    await trail.rotate(compression)
  }
  await trail.end()
  return trail
}

const DAY_MS = Date.parse('2026-11-20T00:00:00Z')
const tasks: Readonly<Record<string, (trail: SealedTrail) => Promise<unknown>>> = {
  list: ({ file }) => trailsOf([file]),
  'list some': ({ file, closed }) => trailsOf(closed.map(({ path }) => path).filter((path) => path !== file)),
  'find everywhere': async ({ file }) =>
    findRecords(await segmentsOfTrail(file), { filter: { user: 'x' }, everywhere: true }, { onRecord() {} }),
  'find in a time': async ({ file }) => {
    const period = { fromMs: DAY_MS, toMs: DAY_MS + 1000 }
    return findRecords(await segmentsOfTrail(file), { filter: {}, period }, { onRecord() {} })
  },
  report: async ({ file }) => reportDay(await segmentsOfTrail(file), DAY_MS),
  verify: async ({ file, directory, vkey }) => {
    const segments = await segmentsOfTrail(file)
    const { findings } = await verifyTrail({ segments, isPart: false, directory, key: trustedKey(vkey) })
    assert.deepEqual(findings, [])
  },
  export: async ({ file, directory }) =>
    exportLog(await segmentsOfTrail(file), directory, `${directory}-exported`),
}

for (const compression of ['none', 'zstd'] as const) {
  test(`with compression ${compression} the file calls of each task grow with the number of segments, not with its square`, async (t) => {
    const [small, large] = [await trailOf(t, 20, compression), await trailOf(t, 80, compression)]
    const calls = countFileCalls(t)
    for (const [name, run] of Object.entries(tasks)) {
      const counts: number[] = []
      for (const trail of [small, large]) {
        const before = calls()
        await run(trail)
        counts.push(calls() - before)
      }
      const [few = 0, many = 0] = counts
      assert.ok(many <= few * 5, `${name}: ${few} calls for 20 segments, ${many} for 80`)
    }
  })
}

test('a start that looks for a request many segments back lists the directory once', (t) => {
  const dir = temporaryDirectory(t)
  const file = join(dir, 'audit.ndjson')
  const request = requestLine('open')
  let continues: string | undefined
  for (let i = 0; i < 100; i++) {
    const path = i === 99 ? file : `${file}.20260101T${String(i).padStart(9, '0')}Z`
    const start = startRecord({ timestamp: '', pid: 1, open: Math.min(i, 1), continues })
    fs.writeFileSync(path, i === 0 ? start + request : start)
    continues = String(fs.statSync(path).ino)
  }
  const calls = countFileCalls(t)
  assert.deepEqual(recover(file).records, [recoveredRecord(request)])
  assert.ok(calls() < 100 * 5, `${calls()} calls`)
})
