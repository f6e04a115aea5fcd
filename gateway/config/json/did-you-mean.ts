/** The candidate nearest to a word; undefined: none is near. Letter case makes no difference. */
export function closestTo(word: string, candidates: Iterable<string>): string | undefined {
  let closest: string | undefined
  // A third of the letters may be wrong.
  let least = Math.max(1, Math.floor(word.length / 3)) + 1
  for (const candidate of candidates) {
    // The distance is at least the difference in length.
    if (Math.abs(word.length - candidate.length) >= least) continue
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase())
    if (distance < least) {
      least = distance
      closest = candidate
    }
  }
  return closest
}

/** The end of a sentence about a wrong word: `; did you mean "…"?`. Empty: no candidate is near. */
export function didYouMean(word: string, candidates: Iterable<string>): string {
  const meant = closestTo(word, candidates)
  return meant === undefined ? '' : `; did you mean "${meant}"?`
}

/** Counts letters to insert, remove, replace or swap with their neighbour (optimal string alignment distance). */
function editDistance(from: string, to: string): number {
  let beforeLast: number[] = []
  let last = Array.from({ length: to.length + 1 }, (_, column) => column)
  for (let row = 1; row <= from.length; row++) {
    const current = [row]
    for (let column = 1; column <= to.length; column++) {
      const cost = from[row - 1] === to[column - 1] ? 0 : 1
      let least = Math.min(
        cell(current, column - 1) + 1,
        cell(last, column) + 1,
        cell(last, column - 1) + cost,
      )
      if (from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1]) {
        least = Math.min(least, cell(beforeLast, column - 2) + 1)
      }
      current.push(least)
    }
    beforeLast = last
    last = current
  }
  return cell(last, to.length)
}

function cell(row: readonly number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY
}
