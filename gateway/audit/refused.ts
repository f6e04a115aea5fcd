import { openChangeOf } from './records.ts'

/**
 * The lines of a commit that failed which are owed to the trail still, and the API_REQUEST lines that are not: whoever
 * waited for those is refused. A request that already has its response among the lines (its client went away meanwhile)
 * keeps both.
 */
export function sortFailed(lines: readonly string[]): {
  readonly owed: string[]
  readonly refused: string[]
} {
  const answers = new Map<string, number>()
  for (const line of lines) {
    if (openChangeOf(line) === -1) answers.set(keyOf(line), (answers.get(keyOf(line)) ?? 0) + 1)
  }
  const owed: string[] = []
  const refused: string[] = []
  for (const line of lines) {
    const count = answers.get(keyOf(line)) ?? 0
    if (openChangeOf(line) !== 1) owed.push(line)
    else if (count === 0) refused.push(line)
    else {
      answers.set(keyOf(line), count - 1)
      owed.push(line)
    }
  }
  return { owed, refused }
}

/** Request id and timestamp, which name a pair. */
function keyOf(line: string): string {
  return line.slice(line.indexOf(',"requestId":'), line.indexOf(',"method":'))
}
