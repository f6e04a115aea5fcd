import { readFileSync, writeFileSync } from 'node:fs'
import { metricsDocument } from '../admin/metrics-document.ts'
import { referenceText } from '../config/json/reference.ts'
import { schemaText } from '../config/json/schema-text.ts'
import { CLIENTS_FILE } from '../config/keys/clients-keys.ts'
import { GATEWAY_FILE } from '../config/keys/gateway-keys.ts'
import { LIMITS_FILE } from '../config/keys/limits-keys.ts'
import { REFUSALS } from '../refusals.ts'
import { commandsDocument } from './commands-document.ts'

/* `npm run schemas`: run it after an edit in config/keys, refusals.ts, a command's help or the metrics. */

const FILES = { gateway: GATEWAY_FILE, limits: LIMITS_FILE, clients: CLIENTS_FILE }
const REFUSALS_PAGE = 'docs/reference/refusals.md'

for (const [name, declared] of Object.entries(FILES))
  write(`config/schemas/${name}.schema.json`, schemaText(declared))
write('docs/reference/keys.md', referenceText())
write('docs/reference/commands.md', await commandsDocument())
write('docs/reference/metrics.md', await metricsDocument())

const refusals = Object.entries(REFUSALS)
const [introduction] = readFileSync(urlOf(REFUSALS_PAGE), 'utf8').split('- `')
const rows = refusals.map(
  ([code, { status, source, detail }]) => `- \`${code}\` (${status}, ${source}): ${detail}\n`,
)
write(REFUSALS_PAGE, `${introduction}${rows.join('')}`)

// The demo API's OpenAPI document names the gateway's codes too.
const byStatus = Map.groupBy(refusals, ([, { status }]) => status)
const codes = [...byStatus].map(([status, kinds]) => [status, kinds.map(([code]) => code)])
write('backend/gateway-problems.json', `${JSON.stringify(Object.fromEntries(codes), null, 2)}\n`)

function write(path: string, text: string): void {
  writeFileSync(urlOf(path), text)
}

function urlOf(path: string): URL {
  return new URL(`../../${path}`, import.meta.url)
}
