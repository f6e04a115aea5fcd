import { launch } from './launch.mjs'

const EVERYTHING = [
  '--experimental-test-coverage',
  '--test-coverage-lines=95',
  '--test-coverage-include=gateway/**',
  '--test-coverage-exclude=**/*.test.ts',
  '--test-coverage-exclude=**/*.test-support.ts',
  '--test-coverage-exclude=gateway/e2e/**',
  '--test-coverage-exclude=gateway/bench/**',
  'gateway/**/*.test.ts',
  'backend/**/*.test.ts',
  'launcher/**/*.test.ts',
]

/** `npm test`: every test, with the coverage that is asked for. `npm test -- FILE…`: those alone, which cannot have it. */
const asked = process.argv.slice(2)
launch(['--import', 'tsx', '--test', '--test-timeout=120000', ...(asked.length > 0 ? asked : EVERYTHING)])
