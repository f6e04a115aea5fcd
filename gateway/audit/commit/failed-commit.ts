import { openChangeOf, pairKeyOf } from '../audit-records.ts'

/** What becomes of the lines of a commit that failed. */
export interface Sorted {
  /** API_REQUEST lines: whoever waited for them is refused. */
  readonly refused: readonly string[]
  /** Of those, the ones that are in the file for good, and need a response there. */
  readonly stranded: readonly string[]
  /** What is owed to the file still. */
  readonly owed: readonly string[]
}

/**
 * Sorts the lines of a commit that failed. A request that already has its response among the lines (its client went away
 * meanwhile) is owed like that.
 *
 * @param inFile those of the lines that are in the file for good.
 */
export function sortFailed(lines: readonly string[], inFile: readonly string[]): Sorted {
  const answers = new Map<string | undefined, number>()
  for (const line of lines) {
    if (openChangeOf(line) === -1) answers.set(pairKeyOf(line), (answers.get(pairKeyOf(line)) ?? 0) + 1)
  }
  const sorted = { refused: [] as string[], stranded: [] as string[], owed: [] as string[] }
  const there = [...inFile]
  for (const line of lines) {
    const count = answers.get(pairKeyOf(line)) ?? 0
    const isThere = takeFrom(there, line)
    if (openChangeOf(line) === 1 && count === 0) {
      sorted.refused.push(line)
      if (isThere) sorted.stranded.push(line)
      continue
    }
    if (openChangeOf(line) === 1) answers.set(pairKeyOf(line), count - 1)
    if (!isThere) sorted.owed.push(line)
  }
  return sorted
}

/** @returns false when it is not among them. */
function takeFrom(lines: string[], line: string): boolean {
  const at = lines.indexOf(line)
  if (at !== -1) lines.splice(at, 1)
  return at !== -1
}
