import { fileURLToPath } from 'node:url'
import { compile } from './compile.mjs'

compile(fileURLToPath(new URL('../dist', import.meta.url)))
