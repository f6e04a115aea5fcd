import { openChangeOf, pairKeyOf } from '../audit-records.ts'

/** The lines of a commit that failed, by what must be done with them. */
interface SortedLines {
  /** API_REQUEST lines whose requests are refused. */
  readonly refused: readonly string[]
  /** Those of `refused` that could not be removed from the file, and need a response there. */
  readonly stranded: readonly string[]
  /** Lines that still have to be written. */
  readonly pending: readonly string[]
}

/**
 * Sorts the lines of a commit that failed. A request whose response is among the lines too (its client went away
 * meanwhile) is not refused: both stay pending.
 *
 * @param inFile those of the lines that stay in the file.
 */
export function sortFailed(lines: readonly string[], inFile: readonly string[]): SortedLines {
  const responses = new Map<string | undefined, number>()
  for (const line of lines) {
    if (openChangeOf(line) === -1) responses.set(pairKeyOf(line), (responses.get(pairKeyOf(line)) ?? 0) + 1)
  }
  const sorted = { refused: [] as string[], stranded: [] as string[], pending: [] as string[] }
  const remaining = [...inFile]
  for (const line of lines) {
    const count = responses.get(pairKeyOf(line)) ?? 0
    const isInFile = takeFrom(remaining, line)
    if (openChangeOf(line) === 1 && count === 0) {
      sorted.refused.push(line)
      if (isInFile) sorted.stranded.push(line)
      continue
    }
    if (openChangeOf(line) === 1) responses.set(pairKeyOf(line), count - 1)
    if (!isInFile) sorted.pending.push(line)
  }
  return sorted
}

/** @returns false when it is not among them. */
function takeFrom(lines: string[], line: string): boolean {
  const at = lines.indexOf(line)
  if (at !== -1) lines.splice(at, 1)
  return at !== -1
}
