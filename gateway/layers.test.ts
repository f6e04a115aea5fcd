import assert from 'node:assert/strict'
import { globSync, readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join, matchesGlob, normalize } from 'node:path'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

/**
 * Every room of gateway/, lowest first. A room may import what stands before it, types included, and nothing else.
 * Rooms of one line know nothing of one another.
 */
const ORDER: readonly (readonly string[])[] = [
  ['refusals.ts', 'principal.ts', 'asn1', 'outgoing', 'edge/syntax', 'storage', 'terminal'],
  ['edge/rules'],
  ['edge/bodies'],
  ['edge/http1'],
  ['edge/http2'],
  ['config'],
  ['tls', 'auth', 'limits', 'audit', 'upstream', 'tracing', 'idempotency'],
  ['store', 'evidence'],
  ['exchange.ts'],
  ['admin'],
  ['gateway.ts'],
  ['stages'],
  ['pipeline.ts'],
  ['runtime'],
  ['main.ts', 'start.ts'],
  ['cli'],
]
const FLOORS: ReadonlyMap<string, number> = new Map(
  ORDER.flatMap((rooms, floor) => rooms.map((room) => [room, floor] as const)),
)

/** Production files at the root of gateway/. */
const MAX_ROOT_FILES = 9
/** TypeScript files of a folder, tests included. */
const MAX_ENTRIES = 30
const MAX_MEDIAN_LINES = 130
const MAX_LINES = 600
/** Names that more than one production file has, such as `main.ts`. */
const MAX_REPEATED_NAMES = 6

interface Import {
  readonly from: string
  readonly to: string
}

const IMPORT = /^(?:import|export)\s[^'"]*?from\s+'(\.[^']+)'/gm

function importsOf(file: string): Import[] {
  const source = readFileSync(join(ROOT, file), 'utf8')
  return [...source.matchAll(IMPORT)].map((match) => ({
    from: file,
    to: normalize(join(dirname(file), match[1] as string)).replaceAll('\\', '/'),
  }))
}

/** A folder of gateway/, or of gateway/edge/; a file at the root is a room of its own. */
function roomOf(file: string): string {
  const [, first = '', second = ''] = file.split('/')
  return first === 'edge' ? `edge/${second}` : first
}

function floorOf(file: string): number {
  const floor = FLOORS.get(roomOf(file))
  assert.ok(floor !== undefined, `${file} stands in a room that the order does not name`)
  return floor
}

function linesOf(file: string): number {
  return readFileSync(join(ROOT, file), 'utf8').split('\n').length - 1
}

/** @returns the first circle of imports, as the files that it passes; undefined when there is none. */
function circleIn(edges: readonly Import[]): string[] | undefined {
  const imported = Map.groupBy(edges, ({ from }) => from)
  const done = new Set<string>()
  const visit = (file: string, path: readonly string[]): string[] | undefined => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file]
    if (done.has(file)) return undefined
    for (const { to } of imported.get(file) ?? []) {
      const circle = visit(to, [...path, file])
      if (circle !== undefined) return circle
    }
    done.add(file)
    return undefined
  }
  for (const file of imported.keys()) {
    const circle = visit(file, [])
    if (circle !== undefined) return circle
  }
  return undefined
}

const files = globSync('{gateway,backend}/**/*.ts', { cwd: ROOT })
  .map((file) => file.replaceAll('\\', '/'))
  .filter((file) => !/\.test(-support)?\.ts$/.test(file) && !/\/(e2e|bench|testing)\//.test(file))
const imports = files.flatMap(importsOf).filter(({ to }) => to.endsWith('.ts'))

describe('the layers', () => {
  it('are read from real import lines, those of types too', () => {
    assert.ok(imports.length > 1000)
    const has = (from: string, to: string) =>
      imports.some((one) => one.from === `gateway/${from}` && one.to === `gateway/${to}`)
    assert.ok(has('pipeline.ts', 'stages/admit.ts'))
    assert.ok(has('pipeline.ts', 'gateway.ts'))
  })

  it('keep gateway and backend apart', () => {
    const across = imports.filter(({ from, to }) => from.split('/')[0] !== to.split('/')[0])
    assert.deepEqual(across, [])
  })

  it('import one way only', () => {
    const upwards = imports.filter(
      ({ from, to }) =>
        from.startsWith('gateway/') && roomOf(from) !== roomOf(to) && floorOf(from) <= floorOf(to),
    )
    assert.deepEqual(upwards, [])
  })

  it('have no circle of files that import each other, types included', () => {
    const edge = (from: string, to: string) => ({ from, to })
    assert.deepEqual(circleIn([edge('a', 'b'), edge('b', 'c'), edge('c', 'b')]), ['b', 'c', 'b'])
    assert.equal(circleIn([edge('a', 'b'), edge('a', 'c'), edge('b', 'd'), edge('c', 'd')]), undefined)
    assert.equal(circleIn(imports), undefined)
  })
})

describe('the packages', () => {
  const BARE = /(?:from |import |import\(|require\()['"]((?:@[\w.-]+\/)?[a-z][\w.-]*)(?:\/[^'"]*)?['"]/g
  const { exclude }: { exclude: string[] } = JSON.parse(
    readFileSync(join(ROOT, 'tsconfig.build.json'), 'utf8'),
  )
  const tools = globSync('gateway/testing/*.ts', { cwd: ROOT }).filter((file) => !file.endsWith('.test.ts'))
  const built = [...files, ...tools].filter((file) => !exclude.some((one) => matchesGlob(file, one)))

  for (const name of ['gateway', 'backend']) {
    it(`${name} imports what its package.json lists, all of it and nothing else`, () => {
      const imported = built
        .filter((file) => file.startsWith(`${name}/`))
        .flatMap((file) => [...readFileSync(join(ROOT, file), 'utf8').matchAll(BARE)])
        .map((match) => match[1] as string)
      const manifest = JSON.parse(readFileSync(join(ROOT, name, 'package.json'), 'utf8'))
      const listed = Object.keys({ ...manifest.dependencies, ...manifest.peerDependencies })
      assert.deepEqual([...new Set(imported)].sort(), listed.sort())
    })
  }
})

describe('the source tree', () => {
  it('has few production files at the root of gateway/', () => {
    const atRoot = files.filter((file) => dirname(file) === 'gateway')
    assert.ok(atRoot.length <= MAX_ROOT_FILES, atRoot.join())
  })

  it('has no folder that is too full to look through', () => {
    const folders = new Set(files.map((file) => dirname(file)))
    const entriesOf = (folder: string) =>
      readdirSync(join(ROOT, folder)).filter((name) => name.endsWith('.ts'))
    const full = [...folders].filter((folder) => entriesOf(folder).length > MAX_ENTRIES)
    assert.deepEqual(full, [])
  })

  it('has no file that is too long to read', () => {
    const long = files.filter((file) => linesOf(file) > MAX_LINES)
    assert.deepEqual(long, [])
    const lengths = files.map(linesOf).sort((a, b) => a - b)
    const median = lengths[lengths.length >> 1] ?? 0
    assert.ok(median <= MAX_MEDIAN_LINES, `half of the files are longer than ${median} lines`)
  })

  it('has few file names that more than one file has', () => {
    const byName = Map.groupBy(files, (file) => basename(file))
    const repeated = [...byName.values()].filter((same) => same.length > 1)
    assert.ok(repeated.length <= MAX_REPEATED_NAMES, JSON.stringify(repeated))
  })
})
