import type { JsonFile } from '../json/json-file.ts'
import { methodFault, methodSet, methodsMeet } from './method-rules.ts'
import { foldPath, pathFault } from './path-rules.ts'

/** What routes and limits have in common, as the operator wrote it. */
interface WrittenRow {
  readonly path: string
  readonly methods?: readonly string[]
}

/**
 * Names every fault in the paths and methods of a list of rows, each by itself and with one another.
 *
 * @returns the indexes of the rows without such a fault
 */
export function checkRows<T>(
  file: JsonFile<T>,
  list: string,
  rows: readonly WrittenRow[],
): ReadonlySet<number> {
  const good = new Set<number>()
  const seen = new Map<string, Seen[]>()
  for (const [index, row] of rows.entries()) {
    const at = `${list}[${index}]`
    if (!checkPath(file, at, row) || !checkMethods(file, at, row)) continue
    const others = seen.get(foldPath(row.path)) ?? []
    const reason = firstConflict(row, others)
    if (reason !== undefined) {
      file.refuse({ path: `${at}.path`, reason })
      continue
    }
    good.add(index)
    // Only rows that go together: no more than there are methods.
    others.push({ row, at })
    seen.set(foldPath(row.path), others)
  }
  return good
}

function checkPath<T>(file: JsonFile<T>, at: string, row: WrittenRow): boolean {
  const path = `${at}.path`
  if (!file.sound(path)) return false
  const reason = pathFault(row.path)
  if (reason !== undefined) file.refuse({ path, reason })
  return reason === undefined
}

function checkMethods<T>(file: JsonFile<T>, at: string, row: WrittenRow): boolean {
  const path = `${at}.methods`
  if (!file.sound(path)) return false
  let good = true
  for (const [index, method] of (row.methods ?? []).entries()) {
    const reason = methodFault(method)
    if (reason === undefined) continue
    file.refuse({ path: `${path}[${index}]`, reason })
    good = false
  }
  return good
}

interface Seen {
  readonly row: WrittenRow
  readonly at: string
}

function firstConflict(row: WrittenRow, others: readonly Seen[]): string | undefined {
  for (const other of others) {
    const reason = conflict(row, other)
    if (reason !== undefined) return reason
  }
  return undefined
}

function conflict(row: WrittenRow, other: Seen): string | undefined {
  const written = JSON.stringify(row.path)
  if (row.path !== other.row.path) {
    return `${written} differs from ${JSON.stringify(other.row.path)} of ${other.at} only in letter case or a closing slash, and an upstream may take them for one`
  }
  if (!methodsMeet(methodSet(row.methods), methodSet(other.row.methods))) return undefined
  return `${written} is also the path of ${other.at}: give each of the two "methods" that the other has not (GET includes HEAD)`
}
