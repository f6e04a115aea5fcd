import { after } from 'node:test'
import { fileURLToPath } from 'node:url'
import { killPrograms, type RunningProcess, startProgram } from '../testing/running-process.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
// A test that failed leaves its processes, for which the run of the file would wait for ever.
after(killPrograms)

/** Runs a script of this repository, named from its root, with exactly this environment beside PATH. */
export function run(script: string, env: Readonly<Record<string, string>>): RunningProcess {
  const inherited = Object.fromEntries(
    ['PATH', 'HOME', 'NODE_V8_COVERAGE', 'NODE_COMPILE_CACHE'].flatMap((name) => {
      const value = process.env[name]
      return value === undefined ? [] : [[name, value]]
    }),
  )
  // PGlite starts in half the time when its WebAssembly is not compiled a second time to run faster.
  const flags = script.startsWith('backend/') ? ['--liftoff-only'] : []
  return startProgram([...flags, script], {
    cwd: ROOT,
    // Few tests measure the grace period of a stop; all others would only wait for it.
    env: { ...inherited, GATEWAY_DRAIN_GRACE_MS: '0', ...env },
  })
}
