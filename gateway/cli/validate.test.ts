import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { describeFault } from '../config/faults.ts'
import { readConfiguration } from '../runtime/startup/read-configuration.ts'
import { temporaryDirectory } from '../storage/temporary-directory.test-support.ts'
import { NO_REDIS, startRedis } from '../store/redis-server.test-support.ts'
import { countersign, PROGRAM } from './program.test-support.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const GATEWAY = '{"routes":[{"path":"/api/*","auth":["none"]}]}'
/** A data directory of this test's user, whoever owns `data` of the checkout. */
const DATA = mkdtempSync(join(tmpdir(), 'validate-data-'))
process.on('exit', () => rmSync(DATA, { recursive: true }))
const LIMITS = '{"limits":[{"path":"/api/login","limit":5,"window":"1m","purpose":"Test"}]}'

/** Runs the real program, as `npm run validate` does. */
function run(args: readonly string[], env: Record<string, string> = {}) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [PROGRAM, ...args], {
    cwd: ROOT,
    env: { ...inherited(), ...env },
    encoding: 'utf8',
  })
  return { status, out: linesOf(stdout), errors: linesOf(stderr) }
}

/** Runs the command in this process. */
async function validate(args: readonly string[], env: Record<string, string> = {}) {
  return here(['validate', ...args], env)
}

async function here(words: readonly string[], env: Record<string, string>) {
  const { status, stdout, stderr } = await countersign(words, { ...inherited(), ...env })
  return { status, out: linesOf(stdout), errors: linesOf(stderr) }
}

function inherited() {
  const { PATH, NODE_V8_COVERAGE, NODE_COMPILE_CACHE } = process.env
  return {
    ...(PATH && { PATH }),
    ...(NODE_V8_COVERAGE && { NODE_V8_COVERAGE }),
    ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }),
    GATEWAY_DATA_DIR: DATA,
    GATEWAY_AUDIT_FILE: join(DATA, 'audit.ndjson'),
  }
}

function linesOf(text: string): string[] {
  return text.split('\n').filter(Boolean)
}

/** The places of the faults, without their sentences and the lines that are shown. */
function placesOf(errors: readonly string[]): string[] {
  return errors.filter((line) => !line.startsWith(' ')).map((line) => line.split(': ').slice(0, 2).join(': '))
}

function files(t: TestContext, texts: Record<string, string>): Record<string, string> {
  const folder = temporaryDirectory(t)
  const paths = Object.keys(texts).map((name) => [name, join(folder, name)] as const)
  for (const [name, path] of paths) writeFileSync(path, texts[name]!)
  return Object.fromEntries(paths)
}

test('the configuration that comes with the gateway is good, with a line for each file', () => {
  assert.deepEqual(run(['validate']), {
    status: 0,
    out: [
      'config/gateway.json: OK, routes: 17',
      'config/limits.json: OK, limits: 6',
      'config/clients.json: OK, clients: 0',
    ],
    errors: [],
  })
})

test('the key of the seals and the keys of a bucket are read', async (t) => {
  const ship = {
    s3: { endpoint: 'https://s3.example', bucket: 'trail', region: 'eu', credentialsFile: '/nowhere' },
  }
  const paths = files(t, {
    'g.json': JSON.stringify({ ...JSON.parse(GATEWAY), audit: { ship } }),
    'l.json': LIMITS,
    'key.pem': 'no key',
  })
  const env = {
    GATEWAY_CONFIG: paths['g.json']!,
    GATEWAY_LIMITS: paths['l.json']!,
    GATEWAY_AUDIT_SEAL_KEY: paths['key.pem']!,
  }
  const { status, out, errors } = await validate([], env)
  assert.equal(status, 1)
  assert.match(errors.join('\n'), /^\S+key\.pem: .*seal key .* cannot be used/m)
  assert.match([...out, ...errors].join('\n'), /audit\.ship: nothing can be shipped: .*\/nowhere/)
})

test('a bucket without the packages that it needs is a fault that says how to install them', async (t) => {
  const ship = { s3: { endpoint: 'https://s3.example', bucket: 'trail' } }
  const hook = `import { registerHooks } from 'node:module'
    registerHooks({ resolve(name, context, next) {
      if (name === '@aws-sdk/lib-storage') throw new Error('not found')
      return next(name, context)
    } })`
  const paths = files(t, {
    'g.json': JSON.stringify({ ...JSON.parse(GATEWAY), audit: { ship } }),
    'l.json': LIMITS,
    'hook.mjs': hook,
  })
  const env = { GATEWAY_CONFIG: paths['g.json']!, GATEWAY_LIMITS: paths['l.json']! }
  assert.equal((await validate([], env)).status, 0)
  const without = { ...env, NODE_OPTIONS: `--import ${paths['hook.mjs']}` }
  const reason =
    '$.audit.ship.s3: needs packages that are not installed: run "npm install @aws-sdk/client-s3 @aws-sdk/lib-storage"'
  for (const command of [['validate'], ['run']]) {
    const { status, errors } = run(command, without)
    assert.equal(status, 1, errors.join())
    assert.ok(errors[0]?.includes(reason), errors.join())
  }
})

function trailIn(t: TestContext) {
  const paths = files(t, { 'g.json': GATEWAY, 'l.json': LIMITS, 'audit.ndjson': '' })
  return {
    GATEWAY_CONFIG: paths['g.json']!,
    GATEWAY_LIMITS: paths['l.json']!,
    GATEWAY_AUDIT_FILE: paths['audit.ndjson']!,
  }
}

test('a trail that others may write is warned of', async (t) => {
  const env = trailIn(t)
  chmodSync(env.GATEWAY_AUDIT_FILE, 0o620)
  const { status, errors } = await validate([], env)
  assert.deepEqual([status, errors.length], [0, 1], errors.join('\n'))
  assert.match(errors[0] ?? '', /^warning: \S+audit\.ndjson may be written by the group/)
})

test('a trail of another user is no fault for root, and a warning for anybody else', {
  skip: process.geteuid?.() !== 0 && 'NOT TESTED: only root can give files away',
}, async (t) => {
  const env = trailIn(t)
  chownSync(env.GATEWAY_AUDIT_FILE, 12_345, 0)
  assert.deepEqual((await validate([], env)).errors, [])
  t.mock.method(process as Required<typeof process>, 'geteuid', () => 54_321)
  assert.match(
    (await validate([], env)).errors.join('\n'),
    /^warning: \S+audit\.ndjson belongs to the user 12345,/m,
  )
})

test('every fault of the environment and both files comes at once, one a line, with status 1', async (t) => {
  const paths = files(t, {
    'g.json': '{"port":"x","routes":[]}',
    'l.json': '{"limits":[{"path":"/a","limit":0,"window":"1w","purpose":"Test"}]}',
  })
  const env = { GATEWAY_CONFIG: paths['g.json']!, GATEWAY_LIMITS: paths['l.json']!, GATEWAY_PROT: '1' }
  const { status, out, errors } = await validate([], env)
  assert.equal(status, 1)
  assert.deepEqual(out, [])
  assert.deepEqual(placesOf(errors), [
    'environment: GATEWAY_PROT',
    `${paths['g.json']}:1:2: $.port`,
    `${paths['g.json']}:1:13: $.routes`,
    `${paths['l.json']}:1:25: $.limits[0].limit`,
    `${paths['l.json']}:1:35: $.limits[0].window`,
  ])
  assert.ok(
    errors.includes('  1 | {"port":"x","routes":[]}') && errors.includes('    |  ^'),
    errors.join('\n'),
  )
})

test('a fault in gateway.json or the environment hides none in the other files, nor at a start', async (t) => {
  const paths = files(t, {
    'gateway.json': '{"rout":[]}',
    'sound.json': GATEWAY.replace('{', '{"upstreamSecretFile":"/nowhere/secret",'),
    'limits.json': LIMITS,
    'clients.json': '{"clients":[{"id":"a b","mtls":{"sanDns":"x"}}]}',
    token: 'short',
  })
  const base = {
    GATEWAY_LIMITS: paths['limits.json']!,
    GATEWAY_CLIENTS: paths['clients.json']!,
    GATEWAY_ADMIN_TOKEN_FILE: paths.token!,
    GATEWAY_TLS_PORT: '8443',
    GATEWAY_TLS_CERT: '/nowhere/c.pem',
    GATEWAY_TLS_KEY: '/nowhere/k.pem',
  }
  const file = { ...base, GATEWAY_CONFIG: paths['gateway.json']!, GATEWAY_STORE: 'memcached://x' }
  const ofFile = [
    /rout: is not a known key/,
    /GATEWAY_STORE: must be/,
    /c\.pem/,
    /k\.pem/,
    /token/,
    /clients\[0\]\.id/,
  ]
  const variable = { ...base, GATEWAY_CONFIG: paths['sound.json']!, GATEWAY_WORKERS: 'some' }
  const ofVariable = [/GATEWAY_WORKERS: must be/, /\/nowhere\/secret/, /token/, /clients\[0\]\.id/]
  for (const [env, told] of [
    [file, ofFile],
    [variable, ofVariable],
  ] as const) {
    const atStart = readConfiguration(env).faults?.map(describeFault).join('\n') ?? ''
    const { status, errors } = await validate([], env)
    assert.equal(status, 1)
    for (const fault of told) {
      assert.match(errors.join('\n'), fault)
      assert.match(atStart, fault)
    }
  }
})

test('in gateway.json alone, what no environment could mend is a fault, and what one could mend is a warning', async (t) => {
  const routes = JSON.parse(GATEWAY).routes
  const checked = async (file: object) => {
    const paths = files(t, { 'gateway.json': JSON.stringify({ routes, ...file }) })
    const { status, errors, out } = await validate([paths['gateway.json']!])
    return { status, text: errors.join('\n'), out }
  }
  const completed: [file: object, warning: RegExp][] = [
    [
      { tls: { port: 8443 } },
      /^warning: .*\$\.tls\.certFile: is missing.*; unless the environment says otherwise/,
    ],
    [
      { routes: [{ path: '/*', auth: ['mtls'] }] },
      /^warning: .*routes\[0\]\.auth: accepts nothing but client/,
    ],
    [{ adminHost: '0.0.0.0' }, /^warning: .*\$\.adminHost: /],
  ]
  for (const [file, warning] of completed) {
    const { status, text, out } = await checked(file)
    assert.match(text, warning)
    assert.deepEqual([status, out.length], [0, 1])
  }
  const bad: [file: object, fault: RegExp][] = [
    [{ audit: { witnesses: {} } }, /\$\.audit\.witnesses: must have either "policyFile"/],
    [
      { upstreams: { a: { targets: ['https://a'], tls: { caFile: '/nowhere' } } } },
      /\$\.upstreams\.a\.tls\.caFile/,
    ],
    [{ upstreamSecretFile: '/nowhere' }, /^\/nowhere: \$: cannot be read/],
  ]
  for (const [file, fault] of bad) {
    const { status, text, out } = await checked(file)
    assert.match(text, fault)
    assert.deepEqual([status, out], [1, []])
  }
  const naming: [file: object, name: string][] = [
    [{ adminTokenFile: '/nowhere' }, '"adminTokenFile"'],
    [{ audit: { sealKeyFile: '/nowhere' } }, '"audit.sealKeyFile"'],
    [{ tls: { port: 8443, certFile: '/nowhere', keyFile: '/nowhere' } }, '"tls.certFile"'],
  ]
  for (const [file, name] of naming) {
    const { status, text } = await checked(file)
    assert.ok(text.includes(`; the file is named by ${name}`), text)
    assert.equal(status, 1)
  }
})

test('a file that cannot be read is told with the key or the variable that names it', async (t) => {
  const gateway = { ...JSON.parse(GATEWAY), openapi: '/nowhere/api.json' }
  const paths = files(t, {
    'gateway.json': JSON.stringify(gateway),
    'sound.json': GATEWAY,
    'limits.json': LIMITS,
  })
  const base = { GATEWAY_CONFIG: paths['sound.json']!, GATEWAY_LIMITS: paths['limits.json']! }
  const tls = { GATEWAY_TLS_PORT: '8443', GATEWAY_TLS_KEY: '/nowhere/key' }
  const cases: [env: Record<string, string>, name: string][] = [
    [{ GATEWAY_CONFIG: '/nowhere/a' }, '--config, GATEWAY_CONFIG or by default'],
    [{ GATEWAY_LIMITS: '/nowhere/a' }, '--limits, GATEWAY_LIMITS or by default'],
    [
      { GATEWAY_CLIENTS: '/nowhere/a' },
      'GATEWAY_CLIENTS, or by default for routes with "mtls", "hmac", "signature" or "signatures.request"',
    ],
    [{ GATEWAY_CONFIG: paths['gateway.json']! }, '"openapi"'],
    [{ GATEWAY_ADMIN_TOKEN_FILE: '/nowhere/a' }, '"adminTokenFile" (GATEWAY_ADMIN_TOKEN_FILE)'],
    [{ GATEWAY_UPSTREAM_SECRET_FILE: '/nowhere/a' }, '"upstreamSecretFile" (GATEWAY_UPSTREAM_SECRET_FILE)'],
    [{ GATEWAY_AUDIT_SEAL_KEY: '/nowhere/a' }, '"audit.sealKeyFile" (GATEWAY_AUDIT_SEAL_KEY)'],
    [{ ...tls, GATEWAY_TLS_CERT: '/nowhere/a' }, '"tls.certFile" (GATEWAY_TLS_CERT)'],
    [{ ...tls, GATEWAY_TLS_CERT: '/nowhere/a' }, '"tls.keyFile" (GATEWAY_TLS_KEY)'],
  ]
  for (const [env, name] of cases) {
    const { status, errors } = await validate([], { ...base, ...env })
    assert.equal(status, 1)
    const text = errors.join('\n')
    assert.ok(text.includes(`; the file is named by ${name}`), text)
  }
})

test('bearer routes without an issuer are warned of, and the shipped configuration is not', async (t) => {
  const bearer = JSON.stringify({
    upstream: 'http://127.0.0.1:1',
    routes: [{ path: '/*', auth: ['bearer'] }],
  })
  const paths = files(t, { 'gateway.json': bearer, 'limits.json': LIMITS })
  const env = { GATEWAY_CONFIG: paths['gateway.json']!, GATEWAY_LIMITS: paths['limits.json']! }
  const { status, errors } = await validate([], env)
  assert.equal(status, 0)
  assert.match(errors.join('\n'), /^warning: no issuer is set: /m)
  assert.doesNotMatch(
    (await validate([], { ...env, GATEWAY_ISSUER: 'https://id.example' })).errors.join(),
    /issuer/,
  )
  assert.deepEqual((await validate([], {})).errors, [])
  const explained = (await here(['explain', 'route', 'GET', '/x'], env)).out.join('\n')
  assert.match(explained, /^ {2}tokens +of http:\/\/localhost:8080 for http:\/\/localhost:8080\/api$/m)
  assert.match(explained, /^ {2}warning +no issuer is set: /m)
  const named = await here(['explain', 'route', 'GET', '/x'], {
    ...env,
    GATEWAY_ISSUER: 'https://id.example',
  })
  assert.match(named.out.join('\n'), /^ {2}tokens +of https:\/\/id\.example for https:\/\/id\.example\/api$/m)
  assert.doesNotMatch(named.out.join('\n'), /warning/)
})

test('validate, like a start, asks for the key of the seals only where something is sealed', async (t) => {
  const paths = files(t, { 'gateway.json': GATEWAY, 'limits.json': LIMITS })
  const env = {
    GATEWAY_CONFIG: paths['gateway.json']!,
    GATEWAY_LIMITS: paths['limits.json']!,
    GATEWAY_AUDIT_SEAL_KEY: '/nowhere/key.pem',
  }
  assert.equal((await validate([], { ...env, GATEWAY_AUDIT_FILE: '-' })).status, 0)
  assert.equal((await validate([], env)).status, 1)
})

test('files named as arguments are checked by what they hold, and the environment is not', async (t) => {
  const paths = files(t, {
    one: GATEWAY,
    two: LIMITS,
    three: '{"$schema":"../limits.schema.json"}',
    four: 'not JSON',
    five: '{}',
    six: '{"limits":[],"routes":[]}',
    marked: `\uFEFF${LIMITS}`,
  })
  const good = await validate([paths.one!, paths.two!, paths.marked!], { GATEWAY_PORT: 'x' })
  assert.deepEqual(good, {
    status: 0,
    out: [`${paths.one}: OK, routes: 1`, `${paths.two}: OK, limits: 1`, `${paths.marked}: OK, limits: 1`],
    errors: [],
  })
  const missing = join(paths.one!, '..', 'missing')
  const bad = await validate([paths.three!, paths.four!, paths.five!, paths.six!, missing, paths.two!])
  assert.equal(bad.status, 1)
  assert.deepEqual(bad.out, [`${paths.two}: OK, limits: 1`])
  assert.deepEqual(placesOf(bad.errors), [
    `${paths.three}:1:1: $.limits`,
    `${paths.four}:1:1: unexpected "not"; keys and texts stand between double quotes in JSON`,
    `${paths.five}:1:1: $.routes`,
    `${paths.six}:1:2: $.limits`,
    `${paths.six}:1:14: $.routes`,
    `${missing}: $`,
  ])
})

test('a limit that no route can reach is a warning, not a fault', async (t) => {
  const paths = files(t, { g: GATEWAY, l: LIMITS.replace('/api/login', '/login') })
  const { status, errors } = await validate([], { GATEWAY_CONFIG: paths.g!, GATEWAY_LIMITS: paths.l! })
  assert.equal(status, 0)
  assert.deepEqual(errors, [
    'warning: the limit "login" (/login) has no effect: no route lets such a request through',
  ])
})

test('with --store it connects, says what is there, and fails when the store cannot be used', async (t) => {
  assert.match(
    (await validate(['--store'])).errors.join(),
    /GATEWAY_STORE: is memory, so there is no store to reach/,
  )
  const away = await validate(['--store'], { GATEWAY_STORE: 'redis://127.0.0.1:1' })
  assert.equal(away.status, 1)
  assert.match(away.errors.join(), /^environment: GATEWAY_STORE: cannot be reached: .*ECONNREFUSED/)
  if (NO_REDIS !== false) return t.skip(NO_REDIS)
  const redis = await startRedis()
  try {
    const { status, out, errors } = await validate(['--store'], {
      GATEWAY_STORE: `redis://127.0.0.1:${redis.port}`,
    })
    assert.equal(status, 0)
    assert.match(out.at(-1) ?? '', /^GATEWAY_STORE: 127\.0\.0\.1:\d+: reached, (Redis|Valkey) \d/)
    assert.match(errors.join(), /^warning: GATEWAY_STORE: .*appendonly is off/)
    redis.signal('SIGSTOP')
    const hanging = await validate(['--store'], { GATEWAY_STORE: `redis://127.0.0.1:${redis.port}` })
    assert.equal(hanging.status, 1)
    assert.match(
      hanging.errors.join(),
      /GATEWAY_STORE: cannot be reached: no reply of 127\.0\.0\.1:\d+ to INFO within 2 s/,
    )
  } finally {
    await redis.stop()
  }
})

test('--against reports a response that has no configuration', async (t) => {
  const bodies = ['{}', '{"parts":null}', 'null', '<html>']
  const server = createServer((_, res) => res.end(bodies.shift())).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  while (bodies.length > 0) {
    const { status, errors } = await validate(['--against', url])
    assert.deepEqual([status, errors], [1, [`${url}/config responded 200 without a configuration`]])
  }
})

test('--against with --json also reports that nobody answers, beside the findings in the files', async () => {
  const { status, out } = await validate(['--json', '--against', 'http://127.0.0.1:1'])
  const { valid, good, faults } = JSON.parse(out.join(''))
  assert.deepEqual([status, valid, good.length > 1], [1, false, true])
  assert.match(faults[0].reason, /^http:.*\/config does not answer: connect ECONNREFUSED/)
})
