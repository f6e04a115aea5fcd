import { configFiles, type Environment, NAMES } from '../config/environment.ts'
import { type Parsed, showFault } from '../config/faults.ts'
import { loadFile } from '../config/load-file.ts'
import { loadSettings } from '../config/load-settings.ts'
import { methodFault } from '../config/rules/method-rules.ts'
import type { Settings } from '../config/settings.ts'
import { readTarget } from '../edge/rules/request-target.ts'
import type { LimitRow } from '../limits/table/limit-row.ts'
import { parseLimits } from '../limits/table/limits-file.ts'
import { CommandFault, UsageFault } from './command.ts'

/** METHOD and PATH of a command line, the path in the form that the gateway compares. @throws UsageFault, CommandFault */
export function readRequest(
  [method = '', written = '']: readonly string[],
  { leniency }: Pick<Settings, 'leniency'>,
): { readonly method: string; readonly path: string } {
  const fault = methodFault(method)
  if (fault !== undefined) throw new UsageFault(`METHOD ${fault}`)
  if (!written.startsWith('/')) throw new UsageFault(`PATH begins with "/", not as "${written}"`)
  const target = readTarget(written, leniency)
  if (typeof target === 'string') {
    throw new CommandFault(`${method} ${written}: refused, 400 invalid_target: ${target}`)
  }
  return { method, path: target.path }
}

/** What requests are compared with. @throws CommandFault with all faults */
export function readTables(env: Environment): {
  readonly settings: Settings
  readonly rows: readonly LimitRow[]
} {
  const settings = loadSettings(env)
  const limits = loadFile(configFiles(env).limitsFile, parseLimits, { namedBy: NAMES.limitsFile })
  const faults = [...(settings.faults ?? []), ...(limits.faults ?? [])]
  if (settings.value === undefined || limits.value === undefined) return readOrRefuse({ faults })
  return { settings: settings.value, rows: limits.value.value }
}

/** The configuration that was read, or all its faults. @throws CommandFault */
export function readOrRefuse<T>({ value, faults }: Parsed<T>): T {
  if (faults !== undefined) throw new CommandFault(faults.map(showFault).join('\n'))
  return value
}
