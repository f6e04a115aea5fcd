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
/** What `npm run test:long` runs with `LONGER`: random tests in more than their usual runs, and every combination of faults. */
const LONG = [
  'gateway/audit/durability.test.ts',
  'gateway/audit/recovery/recovery.test.ts',
  'gateway/audit/trail.test.ts',
  'gateway/cluster/replication.test.ts',
  'gateway/e2e/edge.test.ts',
  'gateway/e2e/full-disk.test.ts',
  'gateway/http/server/conformance/differential.test.ts',
  'gateway/http/server/conformance/event-orders.test.ts',
  'gateway/limits/windows/window.test.ts',
  'gateway/upstream/http1/response-differential.test.ts',
]
/** Most files wait for other processes and for timers, so one more than the cores keeps those busy. */
const AT_ONCE = os.cpus().length + 1

/**
 * `npm test`: every test, or only the named files. `npm run test:coverage`: the same, and fails below 95 % of lines.
 * `npm run test:long`: TEST_LONG times as many runs (20) of the random tests.
 */
const [mode, ...rest] = process.argv.slice(2)
const withCoverage = mode === '--coverage'
const isLong = mode === '--long'
const named = withCoverage || isLong ? rest : process.argv.slice(2)
if (isLong) process.env.TEST_LONG ??= '20'
launch([
  // PGlite, of which most tests of the backend start one, starts in half the time when it is not compiled twice.
  '--liftoff-only',
  ...[
    '--import',
    'tsx',
    '--test',
    `--test-timeout=${isLong ? 3_600_000 : 120_000}`,
    `--test-concurrency=${AT_ONCE}`,
  ],
  ...(withCoverage ? COVERAGE : []),
  ...(named.length > 0 ? named : isLong ? LONG : ALL),
])
