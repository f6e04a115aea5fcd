import { fileURLToPath } from 'node:url'
import { compile } from './compile.mjs'

/** What `npm run build` runs. */
compile(fileURLToPath(new URL('../dist', import.meta.url)))
