import {
  type LimitRow,
  type Limits,
  LimitTable,
  PLANNED,
  rowsOf,
  windowsOf,
} from '../../limits/table/limit-table.ts'
import { plannedLimit } from '../../limits/windows/window.ts'
import { idleRowWarnings } from '../../runtime/config-warnings.ts'
import { plural } from '../../terminal/printable.ts'
import { CONFIG_FLAGS, type Command, environmentOf, JSON_FLAG } from '../command.ts'
import { type Cells, methodsOf, readRequest, readTables, tell, whyNot } from './row-reasons.ts'

const COUNTED: Readonly<Record<LimitRow['per'], string>> = {
  caller: 'each caller; without a credential, each address',
  user: 'each user; without one, each client; without a credential, each address',
  client: 'each client with all its users; without a client, each user; without a credential, each address',
  'client+user':
    'each user of each client; where one is missing, the other; without a credential, each address',
  address: 'each address',
}

export const command: Command = {
  words: 'METHOD PATH',
  flags: { ...CONFIG_FLAGS, ...JSON_FLAG },
  about: [
    'Says which row of limits.json counts a request with this method and path, and why similar rows do not. It reads the files here, and needs no running gateway.',
    'One row of `limits` counts a request: that of the most specific path. If that path has rows only for other methods, no row of `limits` counts the request. Besides, every row of `overall` that covers the path counts it.',
  ],
  examples: [
    ['countersign explain limit POST /api/login', 'the row that counts log-ins'],
    ['countersign explain limit GET /api/data', 'none: exit code 1'],
  ],
  fault: 'no limit counts such a request, or the configuration is faulty',
  run({ words, flags }) {
    const { settings, limits } = readTables(environmentOf(flags))
    const { rows, plans } = limits
    const { method, path } = readRequest(words, settings)
    const found = new LimitTable(rows).find(path, method)
    const counting = found === undefined ? [] : rowsOf(found).map((row) => row.origin ?? row)
    const listed = rows.filter(({ isOverall }) => isOverall === undefined)
    const { near, others } = whyNot(
      listed,
      counting.find(({ isOverall }) => isOverall === undefined),
      { path, method, folded: true },
    )
    const explanation = {
      method,
      path,
      rows: counting.map((row) => ({
        place: `${placeOf(row, rows)} of ${settings.limitsFile}`,
        path: row.path,
        cells: describeLimit(row, plans),
        warnings: idleRowWarnings(settings.routes, [row]),
      })),
      otherwise: 'nothing limits it',
      near: near.map(([row, why]) => {
        return { place: `row ${rows.indexOf(row) + 1}`, path: row.path, methods: methodsOf(row), why }
      }),
      others,
    }
    return tell(explanation, flags)
  },
}

function placeOf(row: LimitRow, rows: readonly LimitRow[]): string {
  const alike = rows.filter(({ isOverall }) => isOverall === row.isOverall)
  return `row ${alike.indexOf(row) + 1}${row.isOverall ? ' of overall' : ''}`
}

function describeLimit(row: LimitRow, plans: Limits['plans']): Cells {
  const windows = windowsOf(row)
  const requests = (limit: number) => Math.floor(limit / row.cost)
  const planned = [...plans].map(
    ([plan, factor]) =>
      `${plan} ${windows.map(({ limit }) => requests(plannedLimit(limit, factor))).join(' and ')}`,
  )
  const bounds = windows.map(({ limit, window }) => `${plural(requests(limit), 'request')} in any ${window}`)
  return [
    ['name', windows.map(({ name }) => name).join(' ')],
    ['limit', `${bounds.join(' and ')}, then 429`],
    ['cost', row.cost > 1 && `${row.cost} hits for each request`],
    ['plans', PLANNED.has(row.per) && planned.join(', ')],
    ['counts', COUNTED[row.per]],
    ['methods', methodsOf(row)],
    ['mode', row.mode === 'shadow' ? 'shadow: it counts, and refuses nothing' : 'enforce'],
    ['purpose', row.purpose],
  ]
}
