#!/usr/bin/env node
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/**
 * The command `countersign` for any Node from 18 on: the launcher finds the right one. A checkout runs the sources, a package its
 * compiled program.
 */
const pathOf = (path) => fileURLToPath(new URL(path, import.meta.url))
const isPacked = existsSync(pathOf('../launcher/launch.mjs'))
const { launch } = await import(isPacked ? '../launcher/launch.mjs' : '../../launcher/launch.mjs')
const program = pathOf(isPacked ? '../dist/gateway/cli/countersign.js' : 'countersign.ts')
const args = process.argv.slice(2)
// Megabytes for young objects: most objects of a request die before the collector copies them.
const young = args[0] === 'run' ? ['--min-semi-space-size=32', '--max-semi-space-size=32'] : []
launch([...young, program, ...args])
