import { parametersOf, withoutNames } from '../../edge/rules/path-template.ts'
import { closestTo } from '../json/did-you-mean.ts'
import { methodSet, methodsMeet } from '../rules/method-rules.ts'
import type { operationRows } from '../rules/row-rules.ts'
import type { ApiOperation } from './openapi-document.ts'

export type OperationRow = ReturnType<typeof operationRows>[number]

type Keys = Partial<Omit<OperationRow, 'path' | 'methods'>>
export interface UnfitKey {
  /** Its place in `openapi.rows`: `[2].path`. */
  readonly at: string
  readonly reason: string
}

type Operation = Pick<ApiOperation, 'path' | 'method'>

export function laidOver(
  rows: readonly OperationRow[],
  operations: readonly Operation[],
): {
  /** Also of each key the index of its row. */
  keysOf(operation: Operation): { readonly keys: Keys; readonly laidAt: Readonly<Record<string, number>> }
  /** What says nothing of any operation that was asked for. */
  unfit(): UnfitKey[]
} {
  const used = new Set<OperationRow>()
  // The more specific ones come last: their keys count.
  const ordered = rows.toSorted((one, other) => rankOf(one.path) - rankOf(other.path))
  return {
    keysOf(operation) {
      const fitting = ordered.filter((row) => covers(row.path, operation.path) && isFor(row, operation))
      for (const row of fitting) used.add(row)
      return {
        keys: Object.assign({}, ...fitting.map((row) => keysFor(row, operation.path))),
        laidAt: Object.fromEntries(
          fitting.flatMap((row) => Object.keys(row).map((key) => [key, rows.indexOf(row)])),
        ),
      }
    },
    unfit: () =>
      [...rows.entries()].flatMap(([index, row]) =>
        used.has(row)
          ? unfitMask(row, operations).map(({ at, reason }) => ({ at: `[${index}]${at}`, reason }))
          : [{ at: `[${index}].path`, reason: whyUnfit(row, operations) }],
      ),
  }
}

/** A prefix before a whole path, a shorter prefix before a longer one. */
function rankOf(path: string): number {
  return path.endsWith('/*') ? path.length : Number.POSITIVE_INFINITY
}

function covers(path: string, operation: string): boolean {
  return path.endsWith('/*') ? operation.startsWith(path.slice(0, -1)) : operation === path
}

function isFor({ methods }: OperationRow, { method }: Operation): boolean {
  return methodsMeet(methodSet(methods), new Set([method]))
}

function keysFor({ path: own, methods: _, ...keys }: OperationRow, path: string): Keys {
  const prefix = keys.rewrite?.prefix
  if (prefix === undefined) return keys
  // The row of an operation is no prefix: it gets the whole path.
  const rest = path.slice(own.length - '/*'.length)
  return { ...keys, rewrite: { path: prefix === '/' ? rest : prefix + rest } }
}

/** A prefix may mask what only some of its operations have. */
function unfitMask(row: OperationRow, operations: readonly Operation[]): UnfitKey[] {
  if (row.mask === undefined) return []
  const fitting = operations.filter((one) => covers(row.path, one.path) && isFor(row, one))
  const names = new Set(fitting.flatMap(({ path }) => parametersOf(path).map(({ name }) => name)))
  return row.mask.flatMap((name, index) => {
    if (names.has(name)) return []
    const meant = closestTo(name, names)
    const hint = meant === undefined ? '' : `; did you mean "${meant}"?`
    const fit = `must be a parameter of an operation that ${JSON.stringify(row.path)} fits`
    return [{ at: `.mask[${index}]`, reason: `${fit}, but is ${JSON.stringify(name)}${hint}` }]
  })
}

function whyUnfit(row: OperationRow, operations: readonly Operation[]): string {
  const fits = 'fits no operation of the document'
  const there = operations.filter(({ path }) => covers(row.path, path))
  if (there.some((operation) => isFor(row, operation)))
    return 'has no effect: rows of $.routes take the place of every operation that it fits'
  if (there.length > 0) {
    const methods = [...new Set(there.map(({ method }) => method))].join(', ')
    return `${fits}: of ${JSON.stringify(row.path)} it has ${methods}, not ${row.methods?.join(', ')}`
  }
  const paths = [...new Set(operations.map(({ path }) => path))]
  const meant =
    paths.find((path) => withoutNames(path) === withoutNames(row.path)) ?? closestTo(row.path, paths)
  const below = paths.filter((path) => path.startsWith(`${row.path}/`) || path.endsWith(row.path)).slice(0, 3)
  const near = meant === undefined ? below : [meant]
  const hint =
    near.length === 0 ? '' : `; did you mean ${near.map((path) => JSON.stringify(path)).join(' or ')}?`
  return `${fits}: none has the path ${JSON.stringify(row.path)}${hint}`
}
