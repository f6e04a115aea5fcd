import { type LimitRow, LimitTable, windowsOf } from '../../limits/table/limit-table.ts'
import { idleRowWarnings } from '../../runtime/config-warnings.ts'
import { CONFIG_FLAGS, type Command, EXIT, environmentOf, print } from '../command.ts'
import { aligned, methodsOf, readRequest, readTables, whyNot } from './row-reasons.ts'

const COUNTED: Readonly<Record<LimitRow['per'], string>> = {
  caller: 'each caller; without a credential, each address',
  user: 'each user; without one, each client; without a credential, each address',
  client: 'each client, all its users together; without one, each user; without a credential, each address',
  'client+user':
    'each user of each client; where one is missing, the other; without a credential, each address',
  address: 'each address',
}

export const command: Command = {
  words: 'METHOD PATH',
  flags: CONFIG_FLAGS,
  about: [
    'Says which row of limits.json counts a request by its path and method, and of the rows near it, why they do not. It reads the files here; no gateway need run.',
    'One row counts a request: that of the most specific path. When that path has rows for other methods only, nothing counts the request. Letter case and a closing slash make no difference.',
  ],
  examples: [
    ['countersign explain limit POST /api/login', 'which row counts log-ins'],
    ['countersign explain limit GET /api/data', 'none: exit code 1'],
  ],
  fault: 'no limit counts such a request, or the configuration is faulty',
  run({ words, flags }) {
    const { settings, rows } = readTables(environmentOf(flags))
    const { method, path } = readRequest(words, settings)
    const row = new LimitTable(rows).find(path, method)
    if (row === undefined) print(`${method} ${path}: nothing limits it`)
    else {
      print(`${method} ${path}: row ${rows.indexOf(row) + 1} of ${settings.limitsFile}, ${row.path}`)
      print(describeLimit(row))
      for (const warning of idleRowWarnings(settings.routes, [row])) print(`  warning   ${warning}`)
    }
    const { near, others } = whyNot(rows, row, { path, method, folded: true })
    for (const [other, why] of near) {
      print(`not row ${rows.indexOf(other) + 1}, ${other.path} (${methodsOf(other)}): ${why}`)
    }
    if (others > 0) print(`${others} rows are for other paths`)
    return row === undefined ? EXIT.fault : EXIT.good
  },
}

function describeLimit(row: LimitRow): string {
  const windows = windowsOf(row)
  const bounds = windows.map(({ limit, window }) => `${limit} requests in any ${window}`)
  return aligned([
    ['name', windows.map(({ name }) => name).join(' ')],
    ['limit', `${bounds.join(' and ')}, then 429`],
    ['counts', COUNTED[row.per]],
    ['methods', methodsOf(row)],
    ['mode', row.mode === 'shadow' ? 'shadow: it counts, and refuses nothing' : 'enforce'],
    ['purpose', row.purpose],
  ])
}
