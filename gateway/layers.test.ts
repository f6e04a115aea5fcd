import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

/** Modules that any room may use: data, tables and names, without state or effect. */
const PLAIN: ReadonlySet<string> = new Set([
  'gateway/exchange.ts',
  'gateway/refusals.ts',
  'gateway/slots.ts',
  'gateway/auth/principal.ts',
  'gateway/config/distinguished-name.ts',
  'gateway/config/faults.ts',
  'gateway/config/settings.ts',
  'gateway/http/canonical-path.ts',
  'gateway/http/field-rules.ts',
  'gateway/http/mandatory-headers.ts',
  'gateway/http/network.ts',
  'gateway/http/node-http.ts',
  'gateway/http/path-table.ts',
  'gateway/limits/row.ts',
  'gateway/upstream/door.ts',
])

/** What reads files of configuration stands in the room that it is for, and uses the tools of the other. */
const ALLOWED: ReadonlySet<string> = new Set([
  'gateway/limits/table.ts → gateway/config',
  'gateway/tls/reload.ts → gateway/config',
  // Answers of the admin listener have ids by the same rule.
  'gateway/admin/server.ts → gateway/http',
])

interface Import {
  readonly from: string
  readonly to: string
}

const IMPORT = /^(?:import|export)\s+(?!type\b)[^'"]*?from\s+'(\.[^']+)'/gm

function importsOf(file: string): Import[] {
  const source = readFileSync(join(ROOT, file), 'utf8')
  return [...source.matchAll(IMPORT)].map((match) => ({
    from: file,
    to: normalize(join(dirname(file), match[1] as string)),
  }))
}

/** `main` for a file at the top of gateway/, otherwise the folder. */
function layerOf(file: string): number {
  if (PLAIN.has(file) || file === 'gateway/gateway.ts') return 0
  if (file.startsWith('gateway/stages/')) return 2
  if (file === 'gateway/pipeline.ts') return 3
  return dirname(file) === 'gateway' ? 4 : 1
}

/** What any room may use, because it knows nobody: the grammar of HTTP/1.1, and what every keeper of files needs. */
const SHARED: ReadonlySet<string> = new Set(['gateway/http1', 'gateway/disk'])

/** `gateway/upstream` for anything below it. */
function roomOf(file: string): string {
  return file.split('/').slice(0, 2).join('/')
}

const files = globSync('{gateway,backend}/**/*.ts', { cwd: ROOT })
  .map((file) => file.replaceAll('\\', '/'))
  .filter((file) => !file.endsWith('.test.ts') && !/\/(e2e|bench|testing)\//.test(file))
const imports = files.flatMap(importsOf).filter(({ to }) => to.endsWith('.ts'))

describe('the layers', () => {
  it('are read from real import lines', () => {
    assert.ok(imports.length > 100)
    assert.ok(
      imports.some(({ from, to }) => from === 'gateway/pipeline.ts' && to === 'gateway/stages/admit.ts'),
    )
  })

  it('keep gateway and backend apart', () => {
    assert.deepEqual(
      imports.filter(({ from, to }) => from.split('/')[0] !== to.split('/')[0]),
      [],
    )
  })

  it('import one way: main, pipeline, stages, rooms, plain data', () => {
    const upwards = imports.filter(
      ({ from, to }) => from.startsWith('gateway/') && layerOf(from) < layerOf(to),
    )
    assert.deepEqual(upwards, [])
  })

  it('let the shared rooms know nobody', () => {
    assert.deepEqual(
      imports.filter(
        ({ from, to }) => SHARED.has(roomOf(from)) && roomOf(from) !== roomOf(to) && !PLAIN.has(to),
      ),
      [],
    )
  })

  it('let a room know another room by its plain data only', () => {
    const crossings = imports.filter(
      ({ from, to }) =>
        from.startsWith('gateway/') &&
        layerOf(from) === 1 &&
        layerOf(to) === 1 &&
        roomOf(from) !== roomOf(to) &&
        !SHARED.has(roomOf(to)) &&
        !ALLOWED.has(`${from} → ${roomOf(to)}`),
    )
    assert.deepEqual(crossings, [])
  })
})
