import assert from 'node:assert/strict'
import { existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { REFUSALS } from '../refusals.ts'
import { temporaryDirectory } from '../storage/temporary-directory.test-support.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** Documents of a tree, without those of packages, which `npm run bench` installs below gateway/bench/peers. */
function documentsIn(root: string): string[] {
  return globSync('{*.md,docs/**/*.md,config/**/*.md,backend/**/*.md,gateway/**/*.md}', {
    cwd: root,
    exclude: ['**/node_modules/**'],
  })
}

/** Targets of the links in a document that are files of this repository, relative to the document. */
function linkedFiles(document: string): string[] {
  const text = readFileSync(join(ROOT, document), 'utf8')
  return [...text.matchAll(/\]\((?!https?:|#)([^)#\s]+)/g)].map((match) => match[1] as string)
}

test('documents of packages do not count as documents of this repository', (t) => {
  const root = temporaryDirectory(t)
  for (const folder of ['gateway/bench/peers', 'gateway/bench/peers/node_modules/some-package']) {
    mkdirSync(join(root, folder), { recursive: true })
    writeFileSync(join(root, folder, 'README.md'), '')
  }
  assert.deepEqual(documentsIn(root), ['gateway/bench/peers/README.md'])
})

test('every link of a document to a file of this repository leads to a file that exists', () => {
  const documents = documentsIn(ROOT)
  assert.ok(documents.length >= 10, documents.join())
  const broken = documents.flatMap((document) =>
    linkedFiles(document)
      .filter((target) => !existsSync(join(ROOT, dirname(document), target)))
      .map((target) => `${document}: ${target}`),
  )
  assert.deepEqual(broken, [])
})

/** The anchors of a document: those that GitHub makes of its headings, and those of its HTML. */
function anchorsOf(document: string): Set<string> {
  const text = readFileSync(join(ROOT, document), 'utf8').replaceAll(/^```[\s\S]*?^```/gm, '')
  const headings = [...text.matchAll(/^#+ +(.*)$/gm)].map(([, heading = '']) =>
    heading
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )
  return new Set([...headings, ...[...text.matchAll(/(?:id|name)="([^"]+)"/g)].map(([, id = '']) => id)])
}

test('every link to a chapter of a document leads to a heading', () => {
  const links = documentsIn(ROOT).flatMap((document) =>
    [...readFileSync(join(ROOT, document), 'utf8').matchAll(/\]\(([^):#\s]*)#([^)\s]+)\)/g)].map(
      ([, file = '', anchor = '']) => ({
        document,
        target: file === '' ? document : join(dirname(document), file),
        anchor,
      }),
    ),
  )
  assert.ok(links.length > 50, `${links.length}`)
  const broken = links.filter(
    ({ target, anchor }) => target.endsWith('.md') && !anchorsOf(target).has(anchor),
  )
  assert.deepEqual(broken, [])
})

test('the commands of a document have no comments, because zsh would run them as commands', () => {
  const blocks = documentsIn(ROOT).flatMap((document) =>
    [...readFileSync(join(ROOT, document), 'utf8').matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)]
      .filter(([, language]) => language === '' || language === 'sh')
      .map(([, , script = '']) => ({ document, script })),
  )
  assert.ok(blocks.length > 50, `${blocks.length}`)
  const comments = blocks.flatMap(({ document, script }) =>
    script
      .split('\n')
      .filter((line) => /(?:^|\s)#/.test(line))
      .map((line) => `${document}: ${line}`),
  )
  assert.deepEqual(comments, [])
})

test('there are at most 120 decisions in 8,000 words, each of at most five lines', () => {
  const text = readFileSync(join(ROOT, 'docs/develop/decisions.md'), 'utf8')
  const decisions = text.split('\n\n').filter((paragraph) => paragraph.startsWith('**'))
  assert.ok(decisions.length > 80 && decisions.length <= 120, `${decisions.length} decisions`)
  const words = text.split(/\s+/).length
  assert.ok(words <= 8000, `${words} words`)
  const long = decisions.filter((decision) => decision.trimEnd().split('\n').length > 5)
  assert.deepEqual(long, [])
})

test('every source file that a document names exists', () => {
  const documents = documentsIn(ROOT).filter((document) => document !== 'CHANGELOG.md')
  const missing = documents.flatMap((document) => {
    const text = readFileSync(join(ROOT, document), 'utf8')
    const named = [...text.matchAll(/`((?:[\w.-]+\/)+[\w.-]+\.(?:ts|mjs))`/g)].map(
      (match) => match[1] as string,
    )
    return named
      .filter((file) =>
        ['', 'gateway', dirname(document)].every((base) => !existsSync(join(ROOT, base, file))),
      )
      .map((file) => `${document}: ${file}`)
  })
  assert.deepEqual(missing, [])
})

test('every production dependency, http-proxy and tsx have rows in the table of dependencies', () => {
  const manifests = globSync('{.,gateway,backend}/package.json', { cwd: ROOT })
  const dependencies = manifests.flatMap((manifest) => {
    const { dependencies, peerDependencies } = JSON.parse(readFileSync(join(ROOT, manifest), 'utf8'))
    return Object.keys({ ...dependencies, ...peerDependencies })
  })
  assert.ok(dependencies.length > 10)
  const text = readFileSync(join(ROOT, 'docs/develop/decisions.md'), 'utf8')
  const rows = text
    .slice(text.indexOf('## Dependencies'))
    .split('\n')
    .filter((line) => line.startsWith('| '))
  const named = new Set(
    rows.flatMap((row) => (row.split('|')[1] ?? '').split(',')).map((name) => name.trim()),
  )
  const wanted = [...dependencies, 'http-proxy', 'tsx']
  assert.deepEqual(
    wanted.filter((name) => !named.has(name)),
    [],
  )
})

/** The brackets at the end of each entry of docs/develop/threats.md: names of test files without their ending. */
function testsNamed(): string[] {
  const entries = readFileSync(join(ROOT, 'docs/develop/threats.md'), 'utf8').matchAll(
    /^- .* \(([^()]+)\)$/gm,
  )
  return [...entries].flatMap(([, names = '']) => names.split(', '))
}

test('every test that docs/develop/threats.md names exists', () => {
  const names = testsNamed()
  assert.ok(names.length > 40)
  const missing = names.filter((name) => {
    const file = name.startsWith('backend/') ? name : `gateway/${name}`
    return !existsSync(join(ROOT, `${file}.test.ts`))
  })
  assert.deepEqual(missing, [])
})

test('docs/reference/refusals.md lists every refusal with its status, its source and its sentence', () => {
  const document = readFileSync(join(ROOT, 'docs/reference/refusals.md'), 'utf8')
  const entries = Object.entries(REFUSALS).map(
    ([code, { status, source, detail }]) => `- \`${code}\` (${status}, ${source}): ${detail}`,
  )
  const listed = document.split('\n').filter((line) => line.startsWith('- '))
  assert.deepEqual(listed, entries, 'refusals.ts was changed: npm run schemas')
})
