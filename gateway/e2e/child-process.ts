import { join } from 'node:path'
import { after } from 'node:test'
import { fileURLToPath } from 'node:url'
import { killPrograms, type RunningProcess, startProgram } from '../testing/running-process.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** Compiled code is kept, except with coverage, which it would make inexact. */
const { NODE_COMPILE_CACHE, TEST_RUN_DIR, TEST_BACKEND, TEST_GATEWAY } = process.env
const CACHE = TEST_RUN_DIR ? join(TEST_RUN_DIR, 'compiled') : NODE_COMPILE_CACHE
/** Programs that are bundled into one file for each test run. */
const BUNDLES = new Map([
  ['gateway/main.ts', TEST_GATEWAY],
  ['backend/main.ts', TEST_BACKEND],
])
const shared: (() => Promise<void>)[] = []
// A failed test leaves processes, for which the file's run would wait for ever.
after(async () => {
  try {
    for (const end of shared) await end()
  } finally {
    killPrograms()
  }
})

/** Calls `end` after all tests of this process, for what they share. */
export function endAfterAll(end: () => Promise<void>): void {
  shared.push(end)
}

/** Undefined removes a variable that is set by default. */
export type Environment = Readonly<Record<string, string | undefined>>

/** Runs a script, named from the repository's root, with this environment over defaults. */
export function run(script: string, env: Environment): RunningProcess {
  const isBackend = script.startsWith('backend/')
  const { NODE_V8_COVERAGE = '' } = isBackend ? {} : { ...process.env, ...env }
  const program = BUNDLES.get(script) || script
  return startProgram([program], {
    cwd: ROOT,
    env: {
      HOME: process.env.HOME,
      // With a real PATH a gateway would ask programs how exact the clock is.
      PATH: '/nowhere',
      ...(NODE_V8_COVERAGE === '' && CACHE ? { NODE_COMPILE_CACHE: CACHE } : {}),
      // Few tests measure a stop's grace period.
      GATEWAY_DRAIN_GRACE_MS: '0',
      ...env,
      NODE_V8_COVERAGE,
    },
  })
}
