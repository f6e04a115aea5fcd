#!/usr/bin/env node
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

/**
 * Replaces `exec` in `exec node program [arguments]` on Windows, where the shell has none: npm links this file into its scripts'
 * path. Other shells use their own `exec`. The program runs in this process.
 */
const program = resolve(process.argv[3])
process.argv.splice(1, 3, program)
await import(pathToFileURL(program).href)
