import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { parseEnvironment } from '../config/environment.ts'

const UNIT = readFileSync(new URL('../../config/systemd/countersign.service', import.meta.url), 'utf8')
/** Grace and `timeouts.drainMs`, both by default, half a second for the last refusals, and what comes after the requests. */
const STOP_SECONDS = 8.5 + 7
const NO_SYSTEMD =
  spawnSync('systemd-analyze', ['--version']).status === 0
    ? false
    : 'NOT TESTED: systemd-analyze is not installed (apt-get install systemd)'

function valuesOf(key: string): string[] {
  return [...UNIT.matchAll(new RegExp(`^${key}=(.*)$`, 'gm'))].map(([, value = '']) => value)
}

describe('config/systemd/countersign.service', () => {
  it('is a unit without a fault, and of little exposure', { skip: NO_SYSTEMD }, () => {
    const dir = mkdtempSync(join(tmpdir(), 'countersign-'))
    const file = join(dir, 'countersign.service')
    // The programs are not installed where the unit has them.
    writeFileSync(file, UNIT.replaceAll(/^(Exec\w+)=\S+/gm, '$1=/bin/true'))
    const verified = spawnSync('systemd-analyze', ['verify', file], { encoding: 'utf8' })
    const safe = spawnSync('systemd-analyze', ['security', '--offline=true', '--threshold=20', file], {
      encoding: 'utf8',
    })
    rmSync(dir, { recursive: true })
    assert.equal(verified.stderr, '')
    assert.equal(safe.status, 0, safe.stdout)
  })

  it('sets variables that the gateway knows, and gives it the time to drain', () => {
    const variables = valuesOf('Environment').map((text) => text.split('=') as [string, string])
    assert.ok(variables.length > 4)
    assert.equal(parseEnvironment(Object.fromEntries(variables)).faults, undefined)
    assert.ok(Number(valuesOf('TimeoutStopSec')[0]) > STOP_SECONDS)
  })
})
