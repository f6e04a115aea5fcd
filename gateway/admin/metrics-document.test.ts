import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { makeFamilies } from './metric-table.ts'
import { metricsDocument } from './metrics-document.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const read = (file: string) => readFileSync(join(ROOT, file), 'utf8')
const families = Object.values(makeFamilies())
const names: ReadonlySet<string> = new Set(families.map(({ name }) => name))

it('docs/reference/metrics.md has the metrics of the table', async () => {
  assert.equal(read('docs/reference/metrics.md'), await metricsDocument(), 'run "npm run schemas"')
})

it('every label has its values in docs/reference/metrics.md', () => {
  const explained = new Set(
    [...read('docs/reference/metrics.md').matchAll(/^\| ((?:`\w+` )+)\| [^|]+ \|$/gm)].flatMap(
      ([, cell]) => cell?.match(/\w+/g) ?? [],
    ),
  )
  const used = [...new Set(families.flatMap(({ labels }) => labels))]
  assert.ok(used.length > 15)
  assert.deepEqual(
    used.filter((label) => !explained.has(label)),
    [],
    'give their values in the table "Labels" of docs/reference/metrics.md',
  )
})

it('names say what a metric is, in base units', () => {
  for (const { name, type } of families) {
    assert.match(name, /^gateway_[a-z_]+$/)
    assert.equal(name.endsWith('_total'), type === 'counter', name)
    if (type === 'histogram') assert.match(name, /_seconds$/)
    assert.doesNotMatch(name, /_(?:ms|millis\w*|minutes|hours|kb|kilobytes|percent)(?:_|$)/)
  }
})

it('every metric has a caller that sets it', () => {
  const callers = globSync('gateway/**/*.ts', { cwd: ROOT }).filter(
    (file) => !/\.test(-support)?\.ts$|\/(?:e2e|bench|console)\/|\/metric-table\.ts$/.test(file),
  )
  const code = callers.map(read).join('\n')
  const used = new Set([...code.matchAll(/\.(gateway_\w+)\b/g)].map(([, name]) => name))
  assert.deepEqual(
    [...names].filter((name) => !used.has(name)),
    [],
    'call metrics.<name>.count, set, observe or read where it happens',
  )
})

it('alerts, dashboard, console and documents name no metric that does not exist', () => {
  const files = globSync(
    ['config/**/*.{md,yml,yaml,json}', 'docs/**/*.md', 'gateway/*.md', 'gateway/admin/console/**/*.{ts,js}'],
    { cwd: ROOT },
  )
  const unknown = files.flatMap((file) =>
    // `gateway_admin_token` is the name of a file.
    [...read(file).matchAll(/(?<![\w:])gateway_(?!admin_token\b)[a-z_]+[a-z]\b(?!:)/g)]
      .map(([name]) => name)
      .filter((name) => !names.has(name) && !names.has(name.replace(/_(?:bucket|sum|count)$/, '')))
      .map((name) => `${file}: ${name}`),
  )
  assert.ok(files.length > 30)
  assert.deepEqual(unknown, [])
})
