import { readFileSync, writeFileSync } from 'node:fs'
import { REFUSALS } from '../../refusals.ts'
import { referenceText } from './reference.ts'

/* `npm run schemas`, after an edit in config/schemas or refusals.ts. */
writeFileSync(new URL('../../../config/REFERENCE.md', import.meta.url), referenceText())

const document = new URL('../../REFUSALS.md', import.meta.url)
const [text] = readFileSync(document, 'utf8').split('| `')
const rows = Object.entries(REFUSALS).map(
  ([code, { status, source, detail }]) => `| \`${code}\` | ${status} | ${source} | ${detail} |\n`,
)
writeFileSync(document, `${text}${rows.join('')}`)
