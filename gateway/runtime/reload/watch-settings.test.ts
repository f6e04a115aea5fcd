import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { makeSealKey } from '../../audit/seals/seal-key.ts'
import { describeFault, type Fault } from '../../config/faults.ts'
import { readSettings } from '../../config/reload/reread-settings.ts'
import type { Settings } from '../../config/settings.ts'
import { rereadApart } from './parse-apart.ts'
import type { Reports } from './reload-reports.ts'
import { watchSettings } from './watch-settings.ts'

/** A document with one operation that anyone may call. */
const api = (path: string) =>
  JSON.stringify({ openapi: '3.1.0', security: [], paths: { [path]: { get: { responses: {} } } } })

interface Started {
  readonly file: string
  readonly document: string
  /** What was put in force, as the paths of its routes. */
  readonly inForce: string[]
  readonly failures: string[]
  readonly successes: () => number
  readonly state: {
    /** While it is set, no thread can parse. */
    isBroken: boolean
    /** Called when a parse is over, before its result is used. */
    onParsed: () => void
  }
  /** Looks until the condition is true. */
  readonly until: (condition: () => boolean) => Promise<void>
}

/** A gateway.json whose routes come from a document, watched as in a running gateway. */
function started(t: TestContext, name = 'api.json', text = api('/one')): Started {
  const folder = mkdtempSync(join(tmpdir(), 'watch-settings-'))
  const [file, document] = [join(folder, 'gateway.json'), join(folder, name)]
  const env = { GATEWAY_CONFIG: file }
  writeFileSync(file, JSON.stringify({ openapi: document }))
  writeFileSync(document, text)
  const { parsed, texts } = readSettings(env)
  assert.deepEqual(parsed.faults, undefined)
  const inForce: string[] = []
  const failures: string[] = []
  const state: Started['state'] = { isBroken: false, onParsed: () => {} }
  let successes = 0
  const reports = {
    clock: () => 0,
    log: { info: () => {}, warn: () => {}, error: () => {} },
    trail: { settle: () => {} },
    metrics: { configReload: () => {} },
    config: {
      failed: (_: string, faults: readonly Fault[]) => failures.push(faults.map(describeFault).join()),
      replacedSettings: () => {
        successes += 1
      },
    },
  }
  const watching = watchSettings(reports as unknown as Reports, {
    settings: parsed.value as Settings,
    texts,
    faultsOf: () => [],
    enforce: ({ routes }) => inForce.push(routes.map(({ path }) => path).join()),
    reread: async (options) => {
      const reread = await rereadApart({ ...options, env: state.isBroken ? (null as never) : env })
      state.onParsed()
      return reread
    },
  })
  t.after(() => {
    watching.stop()
    rmSync(folder, { recursive: true, force: true })
  })
  const until = async (condition: () => boolean) => {
    const endMs = performance.now() + 60_000
    while (!condition()) {
      assert.ok(performance.now() < endMs, failures.join('\n'))
      await watching.check()
    }
  }
  return { file, document, inForce, failures, successes: () => successes, state, until }
}

test('a parse that broke off ends no watch: an edit of the document alone is put in force', async (t) => {
  const { file, document, inForce, failures, state, until } = started(t)
  state.isBroken = true
  writeFileSync(file, JSON.stringify({ openapi: document, via: true }))
  await until(() => failures.length > 0)
  assert.match(failures[0] ?? '', /gateway\.json: \$: cannot be read: /)
  state.isBroken = false
  writeFileSync(document, api('/two'))
  await until(() => inForce.length > 0)
  assert.deepEqual(inForce, ['/two'])
})

/** A document whose beginning is valid too. */
const YAML = `openapi: 3.1.0
security: []
paths:
  /one: { get: {} }
  /two: { get: {} }
`

test('a beginning of a document in YAML is not put in force while the rest is written', async (t) => {
  const { document, inForce, state, until } = started(t, 'api.yaml', YAML.replace('/two', '/three'))
  let parses = 0
  state.onParsed = () => {
    parses += 1
    if (parses === 1) writeFileSync(document, YAML)
  }
  writeFileSync(document, YAML.slice(0, YAML.indexOf('  /two')))
  await until(() => inForce.length > 0)
  assert.deepEqual(inForce, ['/one,/two'])
})

test('a document in JSON, of which no beginning is valid, is put in force at the first look', async (t) => {
  const { document, inForce, state, until } = started(t)
  let parses = 0
  state.onParsed = () => {
    parses += 1
  }
  writeFileSync(document, api('/two'))
  await until(() => inForce.length > 0)
  assert.equal(parses, 1)
})

test('an edit that names a file that is not there is told once, and put in force once the file is there', async (t) => {
  const { file, document, inForce, failures, state, until } = started(t)
  let parses = 0
  state.onParsed = () => {
    parses += 1
  }
  writeFileSync(file, JSON.stringify({ openapi: `${document}.new` }))
  await until(() => parses >= 6)
  assert.deepEqual(failures.length, 1, failures.join('\n'))
  writeFileSync(`${document}.new`, api('/two'))
  await until(() => inForce.length > 0)
  assert.deepEqual([inForce, failures.length], [['/two'], 1])
})

test('an edit that would keep the gateway from starting again is refused until the files that it names are good', async (t) => {
  const { file, document, inForce, failures, successes, until } = started(t)
  const folder = dirname(file)
  const key = join(folder, 'other.pem')
  const cases: [edited: object, told: RegExp, mend: (() => void) | undefined][] = [
    [
      { adminTokenFile: join(folder, 'token') },
      /token: \$: cannot be read: ENOENT/,
      () => writeFileSync(join(folder, 'token'), 'x'.repeat(32)),
    ],
    [
      { tls: { port: 8443, certFile: join(folder, 'c.pem'), keyFile: join(folder, 'k.pem') } },
      /c\.pem: \$: cannot be read: ENOENT.*k\.pem: \$: cannot be read: ENOENT/,
      undefined,
    ],
    [
      { audit: { file: join(folder, 'audit.ndjson'), sealKeyFile: key } },
      /^.*other\.pem: \$: seal key .*other\.pem cannot be used: ENOENT/,
      () => assert.ok(makeSealKey(key)),
    ],
  ]
  for (const [edited, told, mend] of cases) {
    const [failed, succeeded] = [failures.length, successes()]
    writeFileSync(file, JSON.stringify({ openapi: document, ...edited }))
    await until(() => failures.length > failed)
    assert.match(failures.at(-1) ?? '', told)
    assert.equal(successes(), succeeded)
    mend?.()
    if (mend !== undefined) await until(() => successes() > succeeded)
  }
  assert.deepEqual(inForce, [])
})

test('a first route for machine clients is put in force once their file is there', async (t) => {
  const { file, inForce, failures, until } = started(t)
  const cwd = process.cwd()
  process.chdir(dirname(file))
  try {
    const routes = [{ path: '/hook', auth: ['hmac'] }]
    writeFileSync(file, JSON.stringify({ routes }))
    await until(() => failures.length > 0)
    assert.match(failures[0] ?? '', /^config\/clients\.json: \$: cannot be read: ENOENT/)
    mkdirSync('config')
    writeFileSync('config/clients.json', '{"clients":[]}')
    await until(() => inForce.length > 0)
    assert.deepEqual([inForce, failures.length], [['/hook'], 1])
  } finally {
    process.chdir(cwd)
  }
})
