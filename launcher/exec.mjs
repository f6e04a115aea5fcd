#!/usr/bin/env node
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

/**
 * Windows shells have no `exec`. In `exec node program [arguments]` they run this file, which npm links into the path
 * of its scripts. Other shells use their own `exec`. The program runs in this process.
 */
const program = resolve(process.argv[3])
process.argv.splice(1, 3, program)
await import(pathToFileURL(program).href)
