import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
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
  /** While it is set, no thread can parse. */
  readonly state: { isBroken: boolean }
  /** Looks until there is such a thing. */
  readonly until: (condition: () => boolean) => Promise<void>
}

/** A gateway.json of which the routes come from a document, watched as a running gateway does. */
function started(t: TestContext, name = 'api.json', text = api('/one')): Started {
  const folder = mkdtempSync(join(tmpdir(), 'watch-settings-'))
  const [file, document] = [join(folder, 'gateway.json'), join(folder, name)]
  const env = { GATEWAY_CONFIG: file }
  writeFileSync(file, JSON.stringify({ openapi: document }))
  writeFileSync(document, text)
  const { parsed, texts } = readSettings(env)
  assert.deepEqual(parsed.faults, undefined)
  const [inForce, failures, state]: [string[], string[], Started['state']] = [[], [], { isBroken: false }]
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
    reread: (options) => rereadApart({ ...options, env: state.isBroken ? (null as never) : env }),
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
