import { PathTable } from '../../edge/rules/path-table.ts'
import { UNREGISTERED_METHODS } from '../../edge/syntax/status-codes.ts'

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
  const found = folded ? table.findFolded(path) : table.find(path)
  const alias = table.findFolded(path)
  const isHidden = found !== undefined && alias !== undefined && alias.weight > found.weight
  const whyBeaten = (row: R) => {
    const [first] = found?.rows ?? []
    if (first !== undefined && found?.rows.includes(row) !== true) return `${first.path} is more specific`
    if (!(row.methods?.has(method) ?? !UNREGISTERED_METHODS.has(method))) return `is not for ${method}`
    return isHidden
      ? `${alias.rows[0]?.path} is more specific, and a service may take ${path} for a path of it`
      : 'is for such requests, but refuses this path'
  }
  const near: (readonly [R, string])[] = []
  let others = 0
  for (const row of rows) {
    if (row === winner) continue
    if (covers(row, path, folded)) near.push([row, whyBeaten(row)])
    else if (covers(row, path, true))
      near.push([row, 'differs in letter case or a closing slash, which routes tell apart'])
    else others += 1
  }
  return { near, others }
}
