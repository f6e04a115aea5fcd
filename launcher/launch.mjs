import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { delimiter, dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findNodes, whatToInstall } from './find-node.mjs'

const COMPILED = fileURLToPath(new URL('../node_modules/.cache/compiled', import.meta.url))
const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP']
/** How often to look whether npm is still there. */
const PARENT_CHECK_MS = 250

/**
 * Runs the right Node with these arguments in place of this process: signals go to it, its exit code or signal becomes
 * ours, and neither outlives the other. Any Node from 18 on can run this file.
 */
export function launch(args) {
  const child = spawnNode(args)
  if (child === undefined) {
    process.stderr.write(`${whatToInstall()}\n`)
    process.exit(1)
  }
  for (const signal of SIGNALS) process.on(signal, () => child.kill(signal))
  endWithNpm(child)
  child.on('exit', endAs)
}

/** The first Node that the machine can run: one that was built for another C library cannot be started at all. */
function spawnNode(args) {
  for (const node of findNodes()) {
    // By the end of the channel a program learns that this process was killed.
    const stdio = ['inherit', 'inherit', 'inherit', 'ipc']
    const child = spawn(node, args, { stdio, env: environment(node, args) })
    if (child.pid !== undefined) return child
    child.on('error', () => {})
  }
  return undefined
}

function environment(node, args) {
  const env = { ...process.env }
  // What looks for `node` in the path, such as a tool that is a script, finds the same one whatever npm has linked.
  if (node !== process.execPath) env.PATH = [dirname(node), env.PATH].filter(Boolean).join(delimiter)
  // Types are stripped once. Coverage is not exact for functions that were compiled before.
  if (!args.includes('--experimental-test-coverage')) env.NODE_COMPILE_CACHE ??= COMPILED
  return env
}

/**
 * A process is not told that its parent was killed, so it looks. Only under npm: what was started by hand may well
 * outlive the shell that started it.
 */
function endWithNpm(child) {
  if (process.env.npm_lifecycle_event === undefined) return
  const parent = process.ppid
  const timer = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(timer)
    // Nobody balances load here who would need time to send it elsewhere, as after SIGTERM.
    child.kill('SIGINT')
  }, PARENT_CHECK_MS)
}

function endAs(code, signal) {
  if (signal === null) process.exit(code)
  // For a signal that does not end this process.
  setTimeout(() => process.exit(128 + constants.signals[signal]))
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
}
