import { printable } from '../terminal/printable.ts'
import { pathOfPointer } from './json/json-path.ts'

/** The `file` of a fault in the environment. */
export const ENVIRONMENT = 'environment'

export interface Fault {
  /** The file as the operator named it, or `environment`. */
  readonly file: string
  /** `$.limits[2].window`, `GATEWAY_UPSTREAM[1]` (the second entry of a variable), or `line 3 column 7`. */
  readonly path: string
  readonly reason: string
  readonly at?: FaultPlace
}

export interface FaultPlace {
  /** From 1. */
  readonly line: number
  /** From 1, in UTF-16 code units. */
  readonly column: number
  /** The line, or the part of it around the column; undefined when it might hold a secret. */
  readonly excerpt?: { readonly text: string /** From 0. */; readonly caret: number }
}

/** One line, for logs: `config/limits.json: $.limits[2].window: must be … (line 17)`. */
export function describeFault({ file, path, reason, at }: Fault): string {
  const line = at === undefined || isPlace(path) ? '' : ` (line ${at.line})`
  return `${file}: ${path}: ${reason}${line}`
}

/** Shows a fault with its line and a caret below: `config/limits.json:17:7: $.limits[2].window: must be …`. */
export function showFault(fault: Fault): string {
  const { file, path, reason, at } = fault
  if (at === undefined) return printable(describeFault(fault))
  const head = printable(`${file}:${at.line}:${at.column}: ${isPlace(path) ? '' : `${path}: `}${reason}`)
  if (at.excerpt === undefined) return head
  const { text, caret } = at.excerpt
  const number = String(at.line)
  // Tabs stay tabs, so that the caret stands below its place.
  const before = printable(text.slice(0, caret))
  const indent = before.replaceAll(/[^\t]/g, ' ')
  const line = before + printable(text.slice(caret))
  return `${head}\n  ${number} | ${line}\n  ${' '.repeat(number.length)} | ${indent}^`
}

function isPlace(path: string): boolean {
  return path.startsWith('line ')
}

export type Parsed<T> =
  | { readonly value: T; readonly faults?: never }
  | { readonly faults: readonly Fault[]; readonly value?: never }

/** Finds faults in a key of each route. Each fault is at the row (of `routes` or `openapi.rows`) or operation with the key. */
export function keyFaults<
  R extends {
    readonly laidAt?: Readonly<Record<string, number>> | undefined
    readonly documentedAt?: string | undefined
  },
>(
  file: string,
  routes: readonly R[],
  faultOf: (route: R) => { readonly key: string; readonly reason: string } | undefined,
): Fault[] {
  const faults = new Map<string, Fault>()
  for (const [index, route] of routes.entries()) {
    const found = faultOf(route)
    if (found === undefined) continue
    const { key, reason } = found
    const { laidAt, documentedAt } = route
    const row = laidAt?.[key.split('.', 1)[0] as string]
    const own = row === undefined ? `$.routes[${index}]` : `$.openapi.rows[${row}]`
    const isOfOperation = row === undefined && documentedAt !== undefined
    const place = isOfOperation ? placeOfOperation(documentedAt) : { file, path: `${own}.${key}` }
    faults.getOrInsert(JSON.stringify(place), { ...place, reason })
  }
  return [...faults.values()]
}

function placeOfOperation(documentedAt: string): Pick<Fault, 'file' | 'path'> {
  const at = documentedAt.indexOf('#/')
  return { file: documentedAt.slice(0, at), path: pathOfPointer(documentedAt.slice(at + 1)) }
}
