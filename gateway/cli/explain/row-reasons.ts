import { PathTable } from '../../http/rules/path-table.ts'

/** A row of the routes or of the limits. */
interface Row {
  readonly path: string
  readonly methods: ReadonlySet<string> | undefined
}

/** Whether a row covers a path: the same look-up as the gateway's, in a table of this row alone. */
export function covers(row: Row, path: string, folded: boolean): boolean {
  const table = new PathTable([row])
  return (folded ? table.findFolded(path) : table.find(path)) !== undefined
}

/** `GET HEAD POST`, or `every method`. */
export function methodsOf({ methods }: Row): string {
  return methods === undefined ? 'every method' : [...methods].join(' ')
}

interface Asked {
  readonly path: string
  readonly method: string
  /** Whether letter case and a closing slash make no difference, as for limits. */
  readonly folded: boolean
}

/**
 * Why each row that covers the path, or nearly, is not the one that applies; and how many others cover other paths.
 *
 * @param winner the row that applies; undefined: none does
 */
export function whyNot<R extends Row>(
  rows: readonly R[],
  winner: R | undefined,
  { path, method, folded }: Asked,
): { readonly near: readonly (readonly [row: R, why: string])[]; readonly others: number } {
  const table = new PathTable(rows)
  const mostSpecific = (folded ? table.findFolded(path) : table.find(path))?.rows ?? []
  const near: (readonly [R, string])[] = []
  let others = 0
  for (const row of rows) {
    if (row === winner) continue
    if (covers(row, path, folded)) {
      near.push([row, lessSpecific(row, mostSpecific) ?? `is not for ${method}`])
    } else if (covers(row, path, true)) {
      near.push([row, 'differs in letter case or a closing slash, which routes tell apart'])
    } else others += 1
  }
  return { near, others }
}

/** @param mostSpecific the rows of the path that the gateway finds */
function lessSpecific(row: Row, mostSpecific: readonly Row[]): string | undefined {
  const [first] = mostSpecific
  return first === undefined || mostSpecific.includes(row) ? undefined : `${first.path} is more specific`
}
