import { writeFileSync } from 'node:fs'
import { validatorsSource } from './schema-compiler.ts'

/* `npm run schemas`, after an edit in config/schemas. */
writeFileSync(new URL('./validators.ts', import.meta.url), validatorsSource())
