import { readFileSync, writeFileSync } from 'node:fs'
import { REFUSALS } from '../../refusals.ts'
import { CLIENTS_FILE } from '../keys/clients-keys.ts'
import { GATEWAY_FILE } from '../keys/gateway-keys.ts'
import { LIMITS_FILE } from '../keys/limits-keys.ts'
import { referenceText } from './reference.ts'
import { schemaText } from './schema-text.ts'

const FILES = { gateway: GATEWAY_FILE, limits: LIMITS_FILE, clients: CLIENTS_FILE }

/* `npm run schemas`, after an edit in config/keys or refusals.ts. The description of the demo API names the codes of both programs. */
for (const [name, declared] of Object.entries(FILES)) {
  writeFileSync(new URL(`../../../config/schemas/${name}.schema.json`, import.meta.url), schemaText(declared))
}
writeFileSync(new URL('../../../docs/reference/keys.md', import.meta.url), referenceText())

const document = new URL('../../../docs/reference/refusals.md', import.meta.url)
const [text] = readFileSync(document, 'utf8').split('- `')
const rows = Object.entries(REFUSALS).map(
  ([code, { status, source, detail }]) => `- \`${code}\` (${status}, ${source}): ${detail}\n`,
)
writeFileSync(document, `${text}${rows.join('')}`)

const byStatus = Map.groupBy(Object.entries(REFUSALS), ([, { status }]) => status)
const codes = Object.fromEntries(
  [...byStatus].map(([status, kinds]) => [status, kinds.map(([code]) => code)]),
)
writeFileSync(
  new URL('../../../backend/gateway-problems.json', import.meta.url),
  `${JSON.stringify(codes, null, 2)}\n`,
)
