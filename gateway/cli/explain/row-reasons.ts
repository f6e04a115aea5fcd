import { configFiles, type Environment, NAMES } from '../../config/environment.ts'
import { showFault } from '../../config/faults.ts'
import { loadFile } from '../../config/load-file.ts'
import { loadSettings } from '../../config/load-settings.ts'
import { methodFault } from '../../config/rules/method-rules.ts'
import type { Settings } from '../../config/settings.ts'
import { PathTable } from '../../edge/rules/path-table.ts'
import { readTarget } from '../../edge/rules/request-target.ts'
import { UNREGISTERED_METHODS } from '../../edge/syntax/status-codes.ts'
import type { Limits } from '../../limits/table/limit-table.ts'
import { parseLimits } from '../../limits/table/limits-file.ts'
import { plural } from '../../terminal/printable.ts'
import { CommandFault, EXIT, type Given, print, printJson, UsageFault } from '../command.ts'

/** Reads METHOD and PATH; gives the path as the gateway compares it. @throws UsageFault, CommandFault */
export function readRequest(
  [method = '', written = '']: readonly string[],
  { leniency }: Pick<Settings, 'leniency'>,
): { readonly method: string; readonly path: string } {
  const fault = methodFault(method)
  if (fault !== undefined) throw new UsageFault(`METHOD ${fault}`)
  if (!written.startsWith('/')) throw new UsageFault(`PATH must begin with "/", but is "${written}"`)
  const target = readTarget(written, leniency)
  if (typeof target === 'string') {
    throw new CommandFault(`${method} ${written}: refused, 400 invalid_target: ${target}`)
  }
  return { method, path: target.path }
}

/** @throws CommandFault with all faults */
export function readSettings(env: Environment): Settings {
  const { value, faults = [] } = loadSettings(env)
  if (value === undefined) throw new CommandFault(faults.map(showFault).join('\n'))
  return value
}

/** @throws CommandFault with all faults */
export function readTables(env: Environment): {
  readonly settings: Settings
  readonly limits: Limits
} {
  const settings = loadSettings(env)
  const limits = loadFile(configFiles(env).limitsFile, parseLimits, { namedBy: NAMES.limitsFile })
  const faults = [...(settings.faults ?? []), ...(limits.faults ?? [])]
  if (settings.value === undefined || limits.value === undefined)
    throw new CommandFault(faults.map(showFault).join('\n'))
  return { settings: settings.value, limits: limits.value.value }
}

interface Row {
  readonly path: string
  readonly methods: ReadonlySet<string> | undefined
}

/** Uses the gateway's look-up in a table of this row alone. */
function covers(row: Row, path: string, folded: boolean): boolean {
  const table = new PathTable([row])
  return (folded ? table.findFolded(path) : table.find(path)) !== undefined
}

export function methodsOf({ methods }: Row): string {
  return methods === undefined ? 'every method' : [...methods].join(' ')
}

/**
 * Says why rows that cover or nearly cover the path do not apply, and counts rows for other paths.
 * @param asked.folded true where letter case and a closing slash make no difference, as for limits
 */
export function whyNot<R extends Row>(
  rows: readonly R[],
  winner: R | undefined,
  { path, method, folded }: { readonly path: string; readonly method: string; readonly folded: boolean },
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

export type Cells = readonly (readonly [name: string, text: string | false | undefined])[]

/** What a table does with a request. Places read like `row 1 of config/limits.json`. */
interface Explanation {
  readonly method: string
  readonly path: string
  readonly rows: readonly {
    readonly place: string
    readonly path: string
    readonly cells: Cells
    readonly warnings: readonly string[]
  }[]
  readonly otherwise: string
  readonly near: readonly Readonly<Record<'place' | 'path' | 'methods' | 'why', string>>[]
  /** The number of rows for other paths. */
  readonly others: number
}

/** @returns the exit code: good when a row applies */
export function tell(explanation: Explanation, { json }: Given['flags']): number {
  const { method, path, otherwise, near, others } = explanation
  const rows = explanation.rows.map(({ cells, ...row }) => ({ ...row, cells: cells.filter(([, it]) => it) }))
  if (json !== undefined) {
    const shown = rows.map(({ cells, ...row }) => ({ ...row, says: Object.fromEntries(cells) }))
    printJson({ method, path, ...(rows.length === 0 ? { otherwise } : { rows: shown }), near, others })
  } else {
    if (rows.length === 0) print(`${method} ${path}: ${otherwise}`)
    for (const row of rows) {
      print(`${method} ${path}: ${row.place}, ${row.path}`)
      for (const [name, text] of row.cells) print(`  ${name.padEnd(10)}${text}`)
      for (const warning of row.warnings) print(`  warning   ${warning}`)
    }
    for (const row of near) print(`not ${row.place}, ${row.path} (${row.methods}): ${row.why}`)
    if (others > 0) print(`${plural(others, 'row is', 'rows are')} for other paths`)
  }
  return rows.length === 0 ? EXIT.fault : EXIT.good
}
