import { join } from 'node:path'
import { after } from 'node:test'
import { fileURLToPath } from 'node:url'
import { killPrograms, type RunningProcess, startProgram } from '../testing/running-process.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const { NODE_COMPILE_CACHE, TEST_RUN_DIR, TEST_BACKEND, TEST_GATEWAY } = process.env
/** Where programs keep compiled code. Not used with coverage, which would be inexact. */
const CACHE = TEST_RUN_DIR ? join(TEST_RUN_DIR, 'compiled') : NODE_COMPILE_CACHE
/** The bundle that this test run has made of a program, if any. */
const BUNDLES = new Map([
  ['gateway/main.ts', TEST_GATEWAY],
  ['backend/main.ts', TEST_BACKEND],
])
const shared: (() => Promise<void>)[] = []
// A failed test may leave processes. The test file would never end while they run.
after(async () => {
  try {
    for (const end of shared) await end()
  } finally {
    killPrograms()
  }
})

/** Calls `end`, which ends what tests share, after all tests of this process. */
export function endAfterAll(end: () => Promise<void>): void {
  shared.push(end)
}

/** Undefined removes a default variable. */
export type Environment = Readonly<Record<string, string | undefined>>

/** Runs a script by its path from the repository's root. `env` overrides default variables. */
export function run(script: string, env: Environment): RunningProcess {
  const isBackend = script.startsWith('backend/')
  const { NODE_V8_COVERAGE = '' } = isBackend ? {} : { ...process.env, ...env }
  const program = BUNDLES.get(script) || script
  return startProgram([program], {
    cwd: ROOT,
    env: {
      HOME: process.env.HOME,
      // With a real PATH a gateway would run programs that say how exact the clock is.
      PATH: '/nowhere',
      ...(NODE_V8_COVERAGE === '' && CACHE ? { NODE_COMPILE_CACHE: CACHE } : {}),
      // Few tests measure a stop's grace period.
      GATEWAY_DRAIN_GRACE_MS: '0',
      ...env,
      NODE_V8_COVERAGE,
    },
  })
}
