import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { it } from 'node:test'
import { fileURLToPath } from 'node:url'

const PATCH = fileURLToPath(new URL('broken-coverage.cjs', import.meta.url))

it('a coverage report counts broken files of killed programs as no coverage', (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'countersign-coverage-'))
  t.after(() => rmSync(dir, { recursive: true }))
  writeFileSync(join(dir, 'own.mjs'), 'export const one = () => 1\n')
  const test = join(dir, 'a.test.mjs')
  writeFileSync(
    test,
    `import { it } from 'node:test'
    import { writeFileSync } from 'node:fs'
    import { one } from './own.mjs'
    it('leaves broken files', () => {
      one()
      for (const [index, text] of ['', '{"result":['].entries())
        writeFileSync(process.env.NODE_V8_COVERAGE + '/coverage-' + index + '-1795464648784-0.json', text)
    })`,
  )
  const report = (...options: string[]) => {
    // These variables belong to the run that this test is part of.
    const { NODE_TEST_CONTEXT, NODE_V8_COVERAGE, ...env } = process.env
    const args = [...options, '--experimental-test-coverage', '--test', test]
    return spawnSync(process.execPath, args, { cwd: dir, env, encoding: 'utf8' }).stdout
  }
  assert.match(report('--require', PATCH), /own\.mjs +\| +100\.00/)
  // If this fails, the patch is not needed any more.
  assert.match(report(), /Could not report code coverage/)
})
