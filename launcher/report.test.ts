import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { it } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'

const REPORTER = new URL('report.mjs', import.meta.url).href

it('the report says how many files are done, and at the end which tests were skipped and how to run them', (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'countersign-report-'))
  t.after(() => rmSync(dir, { recursive: true }))
  const write = (name: string, tests: string) => {
    const file = join(dir, name)
    writeFileSync(file, `import { describe, it } from 'node:test'\n${tests}\n`)
    return file
  }
  const run = (files: readonly string[], env: NodeJS.ProcessEnv = {}) => {
    // These variables belong to the run that this test is part of.
    const { NODE_TEST_CONTEXT, NODE_V8_COVERAGE, ...own } = process.env
    const args = ['--test', '--test-concurrency=1', `--test-reporter=${REPORTER}`, ...files]
    const options = { cwd: dir, encoding: 'utf8', env: { ...own, ...env } } as const
    return spawnSync(process.execPath, args, options).stdout.replaceAll(/after \d+ s/g, 'after 0 s')
  }
  const one = write(
    'one.test.mjs',
    "it('runs', () => {}); it('waits', { skip: 'needs a, from b' }, () => {})",
  )
  const two = write(
    'two.test.mjs',
    "describe('all', { skip: 'needs a, from b' }, () => {}); it('runs', () => {})",
  )
  const said = run([one, two])
  assert.match(
    said,
    /^✔ runs .*\n﹣ waits .*\n1 of 2 test files are done, after 0 s\n[\s\S]*\n2 of 2 test files are done, after 0 s\nℹ tests 3\n/,
  )
  assert.match(said, /^ℹ pass 2\n[\s\S]*^ℹ skipped 1\n/m)
  assert.ok(
    said.endsWith(
      'Skipped: needs a, from b\n  one.test.mjs: waits\n  two.test.mjs: all\n' +
        'Install what is named there and become root where a test needs root, or run .ci/run on Debian, which skips nothing.\n',
    ),
    said,
  )

  // A group counts as the files that it imports. A whole run, which has groups, names what is left out.
  const shared = join(dir, 'shared')
  mkdirSync(shared)
  const group = join(shared, 'group.test.mjs')
  writeFileSync(group, [one, two].map((file) => `import '${pathToFileURL(file)}'\n`).join(''))
  const env = {
    TEST_RUN_DIR: shared,
    TEST_LEFT_OUT: 'slow.test.ts',
    PATH: fileURLToPath(new URL('.', import.meta.url)),
  }
  const grouped = run([group, two], env)
  assert.match(grouped, /^2 of 3 test files[\s\S]*^3 of 3 test files/m)
  assert.match(grouped, /^ {2}one\.test\.mjs: waits$/m)
  assert.match(
    grouped,
    /\nLeft out: slow\.test\.ts\. "npm test -- FILE" runs .*\nLeft out: tests with dashboard-reader, h2spec, sumdb-verifier, tessera-fsck\. "\.ci\/go-programs FOLDER" .*\n$/,
  )
})
