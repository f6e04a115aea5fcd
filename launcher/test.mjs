import os from 'node:os'
import { launch } from './launch.mjs'

const ALL = ['gateway/**/*.test.ts', 'backend/**/*.test.ts', 'launcher/**/*.test.ts']
const COVERAGE = [
  '--experimental-test-coverage',
  '--test-coverage-lines=95',
  '--test-coverage-include=gateway/**',
  '--test-coverage-exclude=**/*.test.ts',
  '--test-coverage-exclude=**/*.test-support.ts',
  '--test-coverage-exclude=gateway/e2e/**',
  '--test-coverage-exclude=gateway/bench/**',
]
/** Most files wait for other processes and for timers, so one more than the cores keeps those busy. */
const AT_ONCE = os.cpus().length + 1

/** `npm test`: every test, or only the named files. `npm run test:coverage`: the same, and fails below 95 % of lines. */
const args = process.argv.slice(2)
const withCoverage = args[0] === '--coverage'
const named = withCoverage ? args.slice(1) : args
launch([
  // PGlite, of which most tests of the backend start one, starts in half the time when it is not compiled twice.
  '--liftoff-only',
  ...['--import', 'tsx', '--test', '--test-timeout=120000', `--test-concurrency=${AT_ONCE}`],
  ...(withCoverage ? COVERAGE : []),
  ...(named.length > 0 ? named : ALL),
])
