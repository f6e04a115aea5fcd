import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { it } from 'node:test'
import fc from 'fast-check'
import { withoutSyncs } from '../audit/commit/power.test-support.ts'
import { LONGER } from '../e2e/long-runs.ts'
import { Journal } from './journal/limit-journal.ts'
import { anyLaw, holdsLaw } from './limit-law.test-support.ts'
import { Limiter } from './limiter.ts'

const home = mkdtempSync(join(tmpdir(), 'limit-law-'))
process.on('exit', () => rmSync(home, { recursive: true }))

it('the limiter decides by the law: several windows, rows beside each other, plans, costs, shadow mode and edits', async () => {
  await fc.assert(
    fc.asyncProperty(anyLaw, async (law) => {
      let us = 0
      const limiter = new Limiter({ clock: () => us / 1000 })
      await holdsLaw(law, {
        replace: ({ rows, plans }) => limiter.replace(rows, plans),
        take: ({ row, key, us: atUs, ...caller }) => {
          us = atUs
          return limiter.take(row, key, caller)
        },
      })
    }),
    { numRuns: 200 * LONGER },
  )
})

it('the limiter decides by the law when it is stopped for each edit, and started with what the journal has', async (t) => {
  withoutSyncs(t)
  let runs = 0
  await fc.assert(
    fc.asyncProperty(anyLaw, async (law) => {
      const directory = join(home, `${++runs}`)
      const reports = {
        ignored: ({ file }: { file: string }) => assert.fail(file),
        failed: (error: Error) => assert.fail(error),
      }
      let us = 1_000_000_000
      const start = () =>
        new Limiter({ clock: () => us / 1000, journal: new Journal({ directory, reports }) })
      let limiter = start()
      await holdsLaw(law, {
        replace: ({ rows, plans }) => {
          limiter.close()
          limiter = start()
          limiter.replace(rows, plans)
        },
        take: ({ row, key, us: atUs, ...caller }) => {
          us = atUs
          return limiter.take(row, key, caller)
        },
      })
      limiter.close()
      rmSync(directory, { recursive: true })
    }),
    { numRuns: 40 * LONGER },
  )
})
