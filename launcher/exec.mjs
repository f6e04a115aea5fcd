#!/usr/bin/env node
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

/**
 * `exec node program [arguments]` where the shell has no `exec`, which is on Windows: npm links this into the path of its
 * scripts. Every other shell takes its own. The program runs in this process.
 */
const program = resolve(process.argv[3])
process.argv.splice(1, 3, program)
await import(pathToFileURL(program).href)
