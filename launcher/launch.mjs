import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { delimiter, dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findNodes, whatIsMissing, whatToInstall } from './find-node.mjs'

const COMPILED = fileURLToPath(new URL('../node_modules/.cache/compiled', import.meta.url))
const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP']
/** Memory options of a gateway, and their replacements with `GATEWAY_PROFILE=small`, as in memory-profile.ts. */
const YOUNG = /^--(?:min|max)[-_]semi[-_]space[-_]size=/
const SMALL = ['--max-semi-space-size=4', '--heap-growing-percent=20']
const SMALL_ENV = {
  MALLOC_ARENA_MAX: '1',
  MALLOC_MMAP_THRESHOLD_: '32768',
  MALLOC_TRIM_THRESHOLD_: '65536',
}
/** The exit code of a program that the system's loader ends because a library is missing. */
const NOT_LOADED = 127
const PARENT_CHECK_MS = 250

/**
 * Runs a program by the right Node, as a child process. The child gets our signals, and we end with its exit code or
 * signal. Neither outlives the other. Any Node from 18 on can run this file.
 */
export function launch(args) {
  let child
  // Listens to signals first, because npm may pass one on as soon as the program prints something.
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

/** Starts the first Node that can run here, and skips a Node for another C library. */
function spawnNode(given) {
  const args = forProfile(given)
  for (const node of findNodes()) {
    // The channel's end tells the program that this process was killed.
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
  // Lets scripts find the same `node` on the path.
  if (node !== process.execPath) env.PATH = [dirname(node), env.PATH].filter(Boolean).join(delimiter)
  // The cache spares stripping types again, but makes coverage of cached functions inexact.
  if (!args.includes('--experimental-test-coverage')) env.NODE_COMPILE_CACHE ??= COMPILED
  return env
}

/** Ends the program when npm was killed. Without npm, a program may outlive the shell that started it. */
function endWithNpm(child) {
  if (process.env.npm_lifecycle_event === undefined) return
  const parent = process.ppid
  const timer = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(timer)
    // SIGINT, because SIGTERM would make the program wait for a load balancer. Under npx it is SIGTERM, because npx got
    // a SIGTERM that its shell did not pass on.
    child.kill(process.env.npm_lifecycle_event === 'npx' ? 'SIGTERM' : 'SIGINT')
  }, PARENT_CHECK_MS)
}

function endAs(code, signal) {
  if (signal === null) process.exit(code)
  // This is for a signal that does not end this process.
  setTimeout(() => process.exit(128 + constants.signals[signal]))
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
}
