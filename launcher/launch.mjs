import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { delimiter, dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findNodes, whatIsMissing, whatToInstall } from './find-node.mjs'

const COMPILED = fileURLToPath(new URL('../node_modules/.cache/compiled', import.meta.url))
const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP']
/** Options for a gateway's memory, and what replaces them with `GATEWAY_PROFILE=small`, as in `startup/memory-profile`. */
const YOUNG = /^--(?:min|max)[-_]semi[-_]space[-_]size=/
const SMALL = ['--max-semi-space-size=4', '--heap-growing-percent=20']
const SMALL_ENV = {
  MALLOC_ARENA_MAX: '1',
  MALLOC_MMAP_THRESHOLD_: '32768',
  MALLOC_TRIM_THRESHOLD_: '65536',
}
/** Exit code by which the loader of the system ends a program that lacks a library. */
const NOT_LOADED = 127
/** How often to check whether npm still runs. */
const PARENT_CHECK_MS = 250

/**
 * Runs the right Node with these arguments in place of this process: signals are passed to it, we end with its exit code
 * or signal, and neither outlives the other. Any Node from 18 on can run this file.
 */
export function launch(args) {
  let child
  // Signals come first, because npm may pass one on as soon as the program has printed something.
  for (const signal of SIGNALS) process.on(signal, () => child.kill(signal))
  child = spawnNode(args)
  if (child === undefined) {
    process.stderr.write(`${whatToInstall()}\n`)
    process.exit(1)
  }
  endWithNpm(child)
  child.on('exit', (code, signal) => {
    const missing = code === NOT_LOADED ? whatIsMissing(child.spawnfile) : undefined
    if (missing !== undefined) process.stderr.write(`${missing}\n`)
    endAs(code, signal)
  })
}

/** The first Node that the machine can run; one built for another C library cannot start. */
function spawnNode(given) {
  const args = forProfile(given)
  for (const node of findNodes()) {
    // The end of the channel tells the program that this process was killed.
    const stdio = ['inherit', 'inherit', 'inherit', 'ipc']
    const child = spawn(node, args, { stdio, env: environment(node, args) })
    if (child.pid !== undefined) return child
    child.on('error', () => {})
  }
  return undefined
}

function forProfile(args) {
  const rest = args.filter((argument) => !YOUNG.test(argument))
  const isSmall = process.env.GATEWAY_PROFILE === 'small' && rest.length < args.length
  return isSmall ? [...SMALL, ...rest] : args
}

function environment(node, args) {
  const env = { ...(args[0] === SMALL[0] && SMALL_ENV), ...process.env }
  // Scripts that search the path for `node` find the same one, whatever npm has linked.
  if (node !== process.execPath) env.PATH = [dirname(node), env.PATH].filter(Boolean).join(delimiter)
  // With the cache, types are stripped once. But coverage is not exact for functions that come from the cache.
  if (!args.includes('--experimental-test-coverage')) env.NODE_COMPILE_CACHE ??= COMPILED
  return env
}

/**
 * Ends the program when npm was killed, which a process can only find out by checking. Only under npm: a program that was
 * started by hand may outlive its shell.
 */
function endWithNpm(child) {
  if (process.env.npm_lifecycle_event === undefined) return
  const parent = process.ppid
  const timer = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(timer)
    // After SIGTERM the program would wait for a load balancer, and there is none here. But between npx and us is a shell: SIGTERM
    // ends it and is not passed on, so the program gets it from us.
    child.kill(process.env.npm_lifecycle_event === 'npx' ? 'SIGTERM' : 'SIGINT')
  }, PARENT_CHECK_MS)
}

function endAs(code, signal) {
  if (signal === null) process.exit(code)
  // In case the signal does not end this process.
  setTimeout(() => process.exit(128 + constants.signals[signal]))
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
}
