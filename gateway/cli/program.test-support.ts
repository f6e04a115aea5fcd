import { AsyncLocalStorage } from 'node:async_hooks'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { runCommandLine } from './command-line.ts'

const { TEST_GATEWAY } = process.env

/** The command line, for `node PROGRAM`. In a test run it is bundled, and starts with half of the CPU. */
export const PROGRAM = TEST_GATEWAY
  ? join(dirname(TEST_GATEWAY), 'cli/countersign.js')
  : fileURLToPath(new URL('countersign.ts', import.meta.url))

interface Written {
  stdout: string
  stderr: string
}

const written = new AsyncLocalStorage<Written>()
for (const name of ['stdout', 'stderr'] as const) {
  const stream = process[name]
  const write = stream.write
  stream.write = (chunk: string | Uint8Array, ...rest: unknown[]) => {
    const by = written.getStore()
    if (by === undefined) return Reflect.apply(write, stream, [chunk, ...rest])
    by[name] += typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString()
    const done = rest.at(-1)
    if (typeof done === 'function') done()
    return true
  }
}

/**
 * Runs a command in this process, which costs a hundredth of a new process. A test that needs a process starts {@link PROGRAM}.
 *
 * @param env all variables that the command sees; default: those of this process
 */
export async function countersign(words: readonly string[], env?: NodeJS.ProcessEnv) {
  const by: Written = { stdout: '', stderr: '' }
  const { env: own } = process
  if (env !== undefined) process.env = env
  try {
    const status = await written.run(by, runCommandLine, words)
    return { status, ...by }
  } finally {
    process.env = own
  }
}
