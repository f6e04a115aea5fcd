import { it } from 'node:test'
import fc from 'fast-check'
import { LONGER } from '../e2e/long-runs.ts'
import { anyLaw, holdsLaw } from './limit-law.test-support.ts'
import { Limiter } from './limiter.ts'

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
