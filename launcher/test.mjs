import {
  accessSync,
  constants,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs'
import os from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { bundleBackend, bundleSources, bundleTests } from './bundle-sources.mjs'
import { launch } from './launch.mjs'

const ROOTS = ['backend', 'gateway', 'launcher']
/**
 * Groups of test files or folders that share one process, because a process costs 0.2 to 0.6 s of CPU, and 1 s
 * more with an embedded database. Their tests leave nothing running, change nothing of the process, and have no hooks
 * outside a suite, which would run for other files too. A group takes at most 15 s of CPU. Groups begin in this order,
 * roughly the longest first, to keep all cores busy.
 */
const TOGETHER = {
  exchange: [
    'gateway/e2e/headers.test.ts',
    'gateway/e2e/restart.test.ts',
    'gateway/e2e/tracing.test.ts',
    'gateway/e2e/tunnel-life.test.ts',
  ],
  // These files share a service, and the last of them deletes Alice.
  'oauth-users': [
    'gateway/e2e/browser.test.ts',
    'gateway/e2e/oauth.test.ts',
    'gateway/e2e/bank.test.ts',
    'gateway/e2e/webhook-store.test.ts',
    'gateway/e2e/oauth-dpop.test.ts',
    'gateway/e2e/own-record.test.ts',
  ],
  'backend-programs': ['backend/database-away.test.ts', 'backend/main.test.ts'],
  'backend-identity': ['backend/identity'],
  config: ['gateway/config'],
  cli: ['gateway/cli'],
  callers: [
    'gateway/e2e/address-rate.test.ts',
    'gateway/e2e/claims.test.ts',
    'gateway/e2e/clients.test.ts',
    'gateway/e2e/authorization-details.test.ts',
    'gateway/e2e/decisions.test.ts',
    'gateway/e2e/introspection.test.ts',
    'gateway/e2e/issuers.test.ts',
    'gateway/e2e/token-dialects.test.ts',
    'gateway/e2e/openapi-validation.test.ts',
    'gateway/e2e/refusal-log.test.ts',
    'gateway/e2e/refusals.test.ts',
    'gateway/e2e/resource-server.test.ts',
    'gateway/e2e/sent-requests.test.ts',
    'gateway/e2e/sessions.test.ts',
    'gateway/e2e/signatures.test.ts',
    'gateway/e2e/signed-messages.test.ts',
  ],
  https: [
    'gateway/e2e/bank-certificates.test.ts',
    'gateway/e2e/client-authorities.test.ts',
    'gateway/e2e/https.test.ts',
    'gateway/e2e/mtls.test.ts',
    'gateway/e2e/session-tickets.test.ts',
  ],
  'store-connection': [
    'gateway/store/connection',
    'gateway/store/ended-sessions.test.ts',
    'gateway/store/shared-takes.test.ts',
    'gateway/store/store-check.test.ts',
  ],
  store: [
    'gateway/store/shared-idempotency.test.ts',
    'gateway/store/shared-replays.test.ts',
    'gateway/store/store-events.test.ts',
    'gateway/store/store-outages.test.ts',
    'gateway/store/take-script.test.ts',
  ],
  sharing: [
    'gateway/e2e/limits.test.ts',
    'gateway/e2e/shared-store.test.ts',
    'gateway/e2e/store-once.test.ts',
  ],
  limits: ['gateway/edge/bodies', 'gateway/idempotency', 'gateway/limits', 'gateway/runtime'],
  trails: [
    'gateway/e2e/audit-durability.test.ts',
    'gateway/e2e/audit-segments.test.ts',
    'gateway/e2e/audit.test.ts',
    'gateway/e2e/witnesses.test.ts',
  ],
  auth: ['gateway/auth'],
  evidence: [
    'gateway/evidence/attested-checkpoints.test.ts',
    'gateway/evidence/export-log.test.ts',
    'gateway/evidence/line-proofs.test.ts',
    'gateway/evidence/many-segments.test.ts',
    'gateway/evidence/records',
    'gateway/evidence/signed-message.test.ts',
  ],
  'evidence-verify': [
    'gateway/evidence/verify/foreign-cases.test.ts',
    'gateway/evidence/verify/mutations.test.ts',
    'gateway/evidence/verify/verify-trail.test.ts',
  ],
  'audit-programs': [
    'gateway/audit/open-trail.test.ts',
    'gateway/audit/segments/ship-bucket.test.ts',
    'gateway/e2e/audit-seals.test.ts',
  ],
  services: [
    'gateway/e2e/budget.test.ts',
    'gateway/e2e/head-bounds.test.ts',
    'gateway/e2e/hostile-store.test.ts',
    'gateway/e2e/http2.test.ts',
    'gateway/e2e/loop.test.ts',
    'gateway/e2e/routes.test.ts',
    'gateway/e2e/several-backends.test.ts',
    'gateway/e2e/upstream-http2.test.ts',
    'gateway/e2e/upstream-secret.test.ts',
    'gateway/e2e/upstream-tls.test.ts',
    'gateway/e2e/websocket.test.ts',
  ],
  routing: [
    'gateway/e2e/admin.test.ts',
    'gateway/e2e/forwarding.test.ts',
    'gateway/e2e/masked-paths.test.ts',
    'gateway/e2e/route-policy.test.ts',
    'gateway/e2e/upstream-groups.test.ts',
  ],
  webhooks: [
    'gateway/e2e/webhook-clients.test.ts',
    'gateway/e2e/webhook-schemes.test.ts',
    'gateway/e2e/webhook-senders.test.ts',
    'gateway/e2e/webhooks.test.ts',
  ],
  operations: [
    'gateway/e2e/admin-token.test.ts',
    'gateway/e2e/audit-fields.test.ts',
    'gateway/e2e/compose.test.ts',
    'gateway/e2e/documents.test.ts',
    'gateway/e2e/evidence.test.ts',
    'gateway/e2e/h2spec.test.ts',
    'gateway/e2e/kubernetes.test.ts',
    'gateway/e2e/other-verifiers.test.ts',
    'gateway/e2e/start-up.test.ts',
    'gateway/e2e/systemd.test.ts',
  ],
  restarts: [
    'gateway/e2e/drain.test.ts',
    'gateway/e2e/left-alone.test.ts',
    'gateway/e2e/restart-kills.test.ts',
    'gateway/e2e/restart-load.test.ts',
    'gateway/e2e/socket-activation.test.ts',
  ],
  tls: ['gateway/tls'],
  upstream: [
    'gateway/upstream/balancing',
    'gateway/upstream/create-upstreams.test.ts',
    'gateway/upstream/health-check.test.ts',
    'gateway/upstream/http1',
    'gateway/upstream/http2',
    'gateway/upstream/request-body.test.ts',
    'gateway/upstream/upstream-address.test.ts',
    'gateway/upstream/upstream-groups.test.ts',
    'gateway/upstream/upstream-tls.test.ts',
  ],
  reloads: [
    'gateway/e2e/reload.test.ts',
    'gateway/e2e/settings-reload.test.ts',
    'gateway/e2e/stapling.test.ts',
  ],
  http2: [
    'gateway/e2e/grpc.test.ts',
    'gateway/e2e/http2-default.test.ts',
    'gateway/e2e/http2-features.test.ts',
  ],
  'oauth-bound': ['gateway/e2e/oauth-mtls.test.ts', 'gateway/e2e/oauth-sign-in.test.ts'],
  admin: ['gateway/admin', 'gateway/terminal'],
  trail: [
    'gateway/audit/audit-records.test.ts',
    'gateway/audit/background-thread.test.ts',
    'gateway/audit/clock-offset.test.ts',
    'gateway/audit/commit',
    'gateway/audit/config-change-records.test.ts',
    'gateway/audit/durability.test.ts',
    'gateway/audit/file',
    'gateway/audit/hand-over.test.ts',
    'gateway/audit/recovery',
    'gateway/audit/trail.test.ts',
    'gateway/store/shared-limits.test.ts',
    'gateway/store/store-breaker.test.ts',
  ],
  segments: [
    'gateway/audit/segments/keeper.test.ts',
    'gateway/audit/segments/rotation.test.ts',
    'gateway/audit/segments/segments.test.ts',
    'gateway/audit/segments/ship.test.ts',
    'gateway/audit/segments/steady-wall-clock.test.ts',
    'gateway/audit/witness',
    'gateway/evidence/trail-files.test.ts',
  ],
  seals: ['gateway/audit/seals'],
  'backend-service': [
    'backend/app.test.ts',
    'backend/database',
    'backend/environment.test.ts',
    'backend/gateway-secret.test.ts',
    'backend/housekeeping.test.ts',
    'backend/own-record.test.ts',
    'backend/process',
    'backend/testing',
  ],
  'backend-resources': ['backend/money', 'backend/resources', 'backend/travel-document'],
  server: [
    'gateway/edge/http2',
    'gateway/outgoing',
    'gateway/edge/http1/client-networks.test.ts',
    'gateway/edge/http1/client-response.test.ts',
    'gateway/edge/http1/conformance',
    'gateway/edge/http1/connection-deadline.test.ts',
    'gateway/edge/http1/connection-phase.test.ts',
    'gateway/edge/http1/tunnels.test.ts',
    'gateway/tracing',
  ],
  'idempotency-keys': ['gateway/e2e/idempotency-kills.test.ts', 'gateway/e2e/store-idempotency.test.ts'],
  http1: [
    'gateway/edge/http1/client-connection.test.ts',
    'gateway/edge/http1/client-timeouts.test.ts',
    'gateway/edge/http1/close.test.ts',
    'gateway/edge/http1/http-server.test.ts',
    'gateway/edge/http1/lingering.test.ts',
    'gateway/edge/http1/sockets',
  ],
  'upstream-contract': [
    'gateway/upstream/contract/attempts.test.ts',
    'gateway/upstream/contract/connections.test.ts',
    'gateway/upstream/contract/flow.test.ts',
    'gateway/upstream/contract/guarded.test.ts',
    'gateway/upstream/contract/requests.test.ts',
    'gateway/upstream/contract/responses.test.ts',
    'gateway/upstream/contract/retries.test.ts',
    'gateway/upstream/contract/time.test.ts',
    'gateway/upstream/contract/unread-bodies.test.ts',
  ],
  storage: ['gateway/storage'],
  bench: [
    'gateway/bench/bystanders.test.ts',
    'gateway/bench/drain.test.ts',
    'gateway/bench/kernel.test.ts',
    'gateway/bench/load-run.test.ts',
    'gateway/bench/load.test.ts',
    'gateway/bench/main.test.ts',
    'gateway/bench/memory-table.test.ts',
    'gateway/bench/options.test.ts',
    'gateway/bench/pace.test.ts',
    'gateway/bench/response-reader.test.ts',
    'gateway/bench/results.test.ts',
    'gateway/bench/statistics.test.ts',
  ],
  launcher: ['launcher/broken-coverage.test.ts', 'launcher/launch.test.ts', 'launcher/report.test.ts'],
  stages: [
    'gateway/edge/rules',
    'gateway/edge/syntax',
    'gateway/layers.test.ts',
    'gateway/pipeline.test.ts',
    'gateway/stages',
  ],
}
/** A bound below the coverage of repeated runs, which was 95.0 to 96.5 %. */
const MIN_LINES_PERCENT = 93
const COVERAGE = [
  '--require=./launcher/broken-coverage.cjs',
  '--experimental-test-coverage',
  `--test-coverage-lines=${MIN_LINES_PERCENT}`,
  '--test-coverage-include=gateway/**',
  '--test-coverage-exclude=**/*.test.ts',
  '--test-coverage-exclude=**/*.test-support.ts',
  '--test-coverage-exclude=gateway/e2e/**',
  '--test-coverage-exclude=gateway/bench/**',
]
/**
 * The slowest tests, which only `npm run test:coverage`, and so .ci/run, runs: browsers need 60 s of CPU, npm in packages 20 s,
 * failures of a store 16 s, walks through documents 20 s, Schemathesis and Prometheus 25 s, and measurements of memory 10 s.
 */
const COVERAGE_ONLY = [
  'gateway/bench/memory-gateway.test.ts',
  'gateway/bench/memory.test.ts',
  'gateway/e2e/browser.test.ts',
  'gateway/e2e/commands.test.ts',
  'gateway/e2e/console-attention.test.ts',
  'gateway/e2e/console.test.ts',
  'gateway/e2e/http2-browser.test.ts',
  'gateway/e2e/image.test.ts',
  'gateway/e2e/monitoring.test.ts',
  'gateway/e2e/openapi.test.ts',
  'gateway/e2e/readme.test.ts',
  'gateway/e2e/silent-alerts.test.ts',
  'gateway/e2e/store-failures.test.ts',
]
/** Tests for `npm run test:long`: random tests, with `LONGER` times the runs, and every combination of faults. */
const LONG = [
  'gateway/audit/commit/power-cut.test.ts',
  'gateway/audit/durability.test.ts',
  'gateway/audit/recovery/recovery.test.ts',
  'gateway/audit/seals/late-tiles.test.ts',
  'gateway/audit/trail.test.ts',
  'gateway/auth/signatures/berlin-group.test.ts',
  'gateway/auth/signatures/message-verifier.test.ts',
  'gateway/auth/signatures/uk-jws.test.ts',
  'gateway/config/openapi/linear-pattern.test.ts',
  'gateway/config/openapi/public-patterns.test.ts',
  'gateway/e2e/audit-seals.test.ts',
  'gateway/e2e/edge.test.ts',
  'gateway/e2e/full-disk.test.ts',
  'gateway/e2e/h2spec.test.ts',
  'gateway/e2e/idempotency-kills.test.ts',
  'gateway/e2e/idempotency.test.ts',
  'gateway/e2e/openapi.test.ts',
  'gateway/e2e/other-verifiers.test.ts',
  'gateway/e2e/restart-kills.test.ts',
  'gateway/e2e/restart-load.test.ts',
  'gateway/e2e/signatures.test.ts',
  'gateway/e2e/signed-messages.test.ts',
  'gateway/e2e/store-exact.test.ts',
  'gateway/e2e/store-failures.test.ts',
  'gateway/e2e/store-idempotency.test.ts',
  'gateway/e2e/store-once.test.ts',
  'gateway/evidence/records/find-records.test.ts',
  'gateway/evidence/signed-message.test.ts',
  'gateway/evidence/verify/foreign-cases.test.ts',
  'gateway/evidence/verify/mutations.test.ts',
  'gateway/evidence/verify/verify-speed.test.ts',
  'gateway/edge/http1/conformance/differential.test.ts',
  'gateway/edge/http1/conformance/event-orders.test.ts',
  'gateway/edge/http1/conformance/repeated-heads.test.ts',
  'gateway/edge/http1/sockets/lent-bodies.test.ts',
  'gateway/idempotency/key-model.test.ts',
  'gateway/limits/limit-law.test.ts',
  'gateway/limits/limiter.test.ts',
  'gateway/limits/several-windows.test.ts',
  'gateway/limits/windows/window.test.ts',
  'gateway/store/shared-idempotency.test.ts',
  'gateway/store/shared-takes.test.ts',
  'gateway/store/store-outages.test.ts',
  'gateway/store/take-script.test.ts',
  'gateway/tls/clients/psd2-roles.test.ts',
  'gateway/upstream/http1/response-differential.test.ts',
]
/** Tests of a minute or two for each unit of TEST_LONG. Below SOAK_FROM units, as in .ci/run, long runs omit them. */
const SOAK = [
  'gateway/e2e/audit-seals.test.ts',
  'gateway/e2e/full-disk.test.ts',
  'gateway/e2e/idempotency-kills.test.ts',
  'gateway/e2e/restart-kills.test.ts',
  'gateway/e2e/store-exact.test.ts',
  'gateway/e2e/store-failures.test.ts',
  'gateway/e2e/store-idempotency.test.ts',
  'gateway/e2e/store-once.test.ts',
]
const SOAK_FROM = 5
const MIN_MEMORY_BYTES = 4 * 1024 ** 3

/**
 * `npm test`: every test but those of COVERAGE_ONLY, or only the named files. `npm run test:coverage`: every test; fails
 * below MIN_LINES_PERCENT.
 * `npm run test:long`: TEST_LONG times (default 20) as many runs of the random tests.
 */
const [mode, ...rest] = process.argv.slice(2)
const withCoverage = mode === '--coverage'
const isLong = mode === '--long'
/** Test files wait two thirds of their time, so more run than there are cores; fewer with coverage and in long runs. */
const atOnce = os.cpus().length + (withCoverage || isLong ? 1 : 4)
const named = withCoverage || isLong ? rest : process.argv.slice(2)
if (isLong) process.env.TEST_LONG ??= '20'
if (!withCoverage && !isLong) process.env.TMPDIR ??= memoryFolder()
const runDir = mkdtempSync(join(os.tmpdir(), 'countersign-tests-'))
process.on('exit', () => rmSync(runDir, { recursive: true, force: true }))
process.env.TEST_RUN_DIR = runDir
const isBundled = named.length === 0 && !withCoverage && !isLong
if (isBundled) process.env.TEST_LEFT_OUT = COVERAGE_ONLY.join(', ')
// Makes Go programs collect garbage less often.
process.env.GOGC ??= '800'
// Shared code is compiled once, which saves 9 % of CPU. But coverage of functions compiled before is inexact.
if (!withCoverage) process.env.NODE_COMPILE_CACHE = join(runDir, 'compiled')
// Coverage needs sources. If bundling fails, the sources run unbundled, and the tests of broken sources fail.
if (!withCoverage) process.env.TEST_GATEWAY = await bundleSources(join(runDir, 'gateway')).catch(() => '')
process.env.TEST_BACKEND = await bundleBackend(join(runDir, 'backend')).catch(() => '')
const files = named.length > 0 ? named : isLong ? longTests() : allTests()
const bundled =
  isBundled &&
  (await bundleTests(join(runDir, 'tests'), files, process.env.TEST_GATEWAY).catch(() => undefined))
launch([
  // Test processes live for seconds. In these spaces they seldom collect garbage, which saves 6 % of CPU.
  ...['--min-semi-space-size=16', '--max-semi-space-size=32', '--initial-old-space-size=512'],
  // tsx loads sources, but not with coverage. It moves lines, so coverage of programs would not fit coverage of tests.
  // The half of tsx for CommonJS is left out. It reads each CommonJS file, which costs a process 0.02 to 0.1 s of CPU.
  ...(withCoverage ? [] : bundled ? ['--enable-source-maps'] : ['--import', 'tsx/esm']),
  `--test-reporter=${new URL('report.mjs', import.meta.url).href}`,
  ...['--test', `--test-timeout=${isLong ? 3_600_000 : 300_000}`, `--test-concurrency=${atOnce}`],
  ...(withCoverage ? COVERAGE : []),
  ...(bundled || files),
])

/** Returns /dev/shm, which costs less CPU than a disk; os.tmpdir() if it is read-only, noexec or short of memory. */
function memoryFolder() {
  const folder = '/dev/shm'
  try {
    accessSync(folder, constants.W_OK | constants.X_OK)
    const { bavail, bsize } = statfsSync(folder)
    const freeBytes = Math.min(bavail * bsize, os.freemem())
    const mounts = readFileSync('/proc/self/mounts', 'utf8').split('\n')
    const mount = mounts.findLast((line) => line.split(' ')[1] === folder)
    const mayHoldPrograms = mount !== undefined && !/\bnoexec\b/.test(mount)
    return mayHoldPrograms && freeBytes >= MIN_MEMORY_BYTES ? folder : os.tmpdir()
  } catch {
    return os.tmpdir()
  }
}

function longTests() {
  return Number(process.env.TEST_LONG) < SOAK_FROM ? LONG.filter((path) => !SOAK.includes(path)) : LONG
}

/** Writes files that import tests: one for each group, and one for each other test file. With coverage the others run directly. */
function allTests() {
  const shared = new Set(Object.values(TOGETHER).flat().flatMap(testsIn))
  const isRun = (path) => withCoverage || !COVERAGE_ONLY.includes(path)
  const others = ROOTS.flatMap(testsIn).filter((path) => !shared.has(path) && isRun(path))
  const alone = withCoverage ? [] : others.map((path) => [path.replaceAll('/', '-').slice(0, -8), [path]])
  const groups = [...alone, ...Object.entries(TOGETHER)].map(([name, paths], index) => {
    const urls = paths
      .flatMap(testsIn)
      .filter(isRun)
      .map((path) => pathToFileURL(resolve(path)).href)
    // The runner begins files in the order of names.
    const file = join(runDir, `${String(index).padStart(3, '0')}-${name}.test.mjs`)
    writeFileSync(file, urls.map((url) => `import ${JSON.stringify(url)}\n`).join(''))
    return file
  })
  return withCoverage ? [...groups, ...others] : groups
}

/** Lists the tests below a folder. A test file gives its own path. */
function testsIn(folder) {
  if (folder.endsWith('.test.ts')) return [folder]
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = `${folder}/${entry.name}`
    if (entry.isDirectory()) return testsIn(path)
    return path.endsWith('.test.ts') ? [path] : []
  })
}
