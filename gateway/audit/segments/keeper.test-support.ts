import fs from 'node:fs'
import { type AuditKeeping, type KeeperParts, SegmentKeeper } from './keeper.ts'

export const keepingOf = (file: string): AuditKeeping => ({
  file,
  seals: 'on',
  rotation: undefined,
  retention: undefined,
  ship: undefined,
})

/** A keeper that appends to the file itself, and what it reports. */
export function keeperOf(file: string, now: () => number, parts: Partial<KeeperParts> = {}) {
  const told: string[] = []
  const unshipped: number[] = []
  const oldest: (number | undefined)[] = []
  const keeper = new SegmentKeeper({
    now,
    needed: async () => new Set(),
    inUse: async () => '',
    record: async (lines) => fs.appendFileSync(file, lines.join('')),
    reports: {
      info: () => {},
      warn: () => {},
      failed: (task, cause) => told.push(`${task} failed: ${cause}`),
      done: (task) => told.push(task),
      unshipped: (count, oldestMs) => {
        unshipped.push(count)
        oldest.push(oldestMs)
      },
    },
    ...parts,
  })
  const round = (keeping: Partial<AuditKeeping>) => keeper.round({ ...keepingOf(file), ...keeping })
  return { told, unshipped, oldest, round }
}
