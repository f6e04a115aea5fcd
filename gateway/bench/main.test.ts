import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { temporaryDirectory } from '../storage/temporary-directory.test-support.ts'

const MAIN = fileURLToPath(new URL('./main.ts', import.meta.url))

// Runs without the tests' loader, because its coverage could not be added to theirs.
const env = { ...process.env, NODE_V8_COVERAGE: '' }

const WHAT = ['--only', 'unlimited,latency', '--among', 'byte pump']
const UNLIMITED = /^\| Unlimited path \| byte pump \| [\d.]+ \(/m
const LATENCY =
  /^\| GET, RS256 token seen before, limited path \(repeated\): 50 % of its own saturation \| byte pump \| [\d,]+ \(/m

describe('npm run bench', { skip: process.platform !== 'linux' && 'needs Linux' }, () => {
  it('measures real processes and writes page and picture', (t) => {
    const out = temporaryDirectory(t)
    const measured = (seconds: string) => {
      const args = [...['--quick', '--seconds', seconds], ...WHAT, '--out', out]
      const { status, stdout, stderr } = spawnSync(process.execPath, [MAIN, ...args], {
        encoding: 'utf8',
        env,
      })
      assert.equal(status, 0, stdout + stderr)
      return readFileSync(join(out, 'RESULTS.md'), 'utf8')
    }
    let page = measured('0.2')
    // On a busy machine not one response may come in so short a time; the longer ones keep both cores busy.
    for (const seconds of ['0.2', '1', '5'])
      if (!LATENCY.test(page) || !UNLIMITED.test(page)) page = measured(seconds)
    assert.match(page, UNLIMITED)
    assert.match(page, LATENCY)
    assert.match(
      readFileSync(join(out, 'results.csv'), 'utf8'),
      /^latency,"byte pump","50 % of its own saturation",1,/m,
    )
    assert.match(readFileSync(join(out, 'results.svg'), 'utf8'), /^<svg /)
  })

  it('prints its usage for an unknown scenario', () => {
    const { status, stderr } = spawnSync(process.execPath, [MAIN, '--only', 'everything'], {
      encoding: 'utf8',
      env,
    })
    assert.equal(status, 1)
    assert.match(stderr, /no scenario is called everything/)
    assert.match(stderr, /--quick/)
  })
})
