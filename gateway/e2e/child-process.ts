import { join } from 'node:path'
import { after } from 'node:test'
import { fileURLToPath } from 'node:url'
import { killPrograms, type RunningProcess, startProgram } from '../testing/running-process.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** Keeps compiled code, except for coverage, which is not exact for functions that were compiled before. */
const { NODE_COMPILE_CACHE, TEST_RUN_DIR, TEST_BACKEND, TEST_GATEWAY } = process.env
const CACHE = TEST_RUN_DIR ? join(TEST_RUN_DIR, 'compiled') : NODE_COMPILE_CACHE
/** Programs that are bundled into one file, in a place of its own for each run. */
const BUNDLES = new Map([
  ['gateway/main.ts', TEST_GATEWAY],
  ['backend/main.ts', TEST_BACKEND],
])
const shared: (() => Promise<void>)[] = []
// A test that failed leaves its processes, for which the run of the file would wait for ever.
after(async () => {
  try {
    for (const end of shared) await end()
  } finally {
    killPrograms()
  }
})

/** Calls `end` after all tests of this process, for what several of them share. */
export function endAfterAll(end: () => Promise<void>): void {
  shared.push(end)
}

/** Undefined removes a variable that tests set. */
export type Environment = Readonly<Record<string, string | undefined>>

/** Runs a script of this repository, named from its root, with this environment over a few defaults. */
export function run(script: string, env: Environment): RunningProcess {
  const isBackend = script.startsWith('backend/')
  const { NODE_V8_COVERAGE = '' } = isBackend ? {} : { ...process.env, ...env }
  const program = BUNDLES.get(script) || script
  return startProgram([program], {
    cwd: ROOT,
    env: {
      HOME: process.env.HOME,
      // A gateway would ask programs how exact the clock is.
      PATH: '/nowhere',
      ...(NODE_V8_COVERAGE === '' && CACHE ? { NODE_COMPILE_CACHE: CACHE } : {}),
      // Few tests measure the grace period of a stop; all others would only wait for it.
      GATEWAY_DRAIN_GRACE_MS: '0',
      ...env,
      NODE_V8_COVERAGE,
    },
  })
}
