import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it, test } from 'node:test'
import { parseEnvironment } from '../config/environment.ts'
import { REPORT_MS } from '../runtime/restart/control-socket.ts'
import { temporaryDirectory } from '../storage/temporary-directory.test-support.ts'

/** The units of a single gateway, and of one of several on one port. */
const UNITS = ['countersign.service', 'countersign@.service']
/** The default grace and `timeouts.drainMs`, half a second for the last refusals, and 7 s for the end. */
const STOP_SECONDS = 8.5 + 7
const NO_SYSTEMD =
  spawnSync('systemd-analyze', ['--version']).status === 0
    ? false
    : 'NOT TESTED: systemd-analyze is not installed (apt-get install systemd)'

const read = (name: string) => readFileSync(new URL(`../../config/systemd/${name}`, import.meta.url), 'utf8')

function valuesOf(unit: string, key: string): string[] {
  return [...unit.matchAll(new RegExp(`^${key}=(.*)$`, 'gm'))].map(([, value = '']) => value)
}

for (const name of UNITS) {
  describe(`config/systemd/${name}`, () => {
    it('has no fault, and a low exposure level in systemd-analyze', { skip: NO_SYSTEMD }, (t) => {
      const dir = temporaryDirectory(t)
      const file = join(dir, name.replace('@', '@1'))
      // The programs of the unit are not installed here.
      writeFileSync(file, read(name).replaceAll(/^(Exec\w+)=\S+/gm, '$1=/bin/true'))
      const verified = spawnSync('systemd-analyze', ['verify', file], { encoding: 'utf8' })
      const safe = spawnSync('systemd-analyze', ['security', '--offline=true', '--threshold=20', file], {
        encoding: 'utf8',
      })
      assert.equal(verified.stderr, '')
      assert.equal(safe.status, 0, safe.stdout)
    })

    it('sets variables that the gateway knows, and gives it the time to drain and to restart', () => {
      const unit = read(name)
      const variables = valuesOf(unit, 'Environment').map(
        (text) => text.replaceAll('%i', '1').split('=') as [string, string],
      )
      assert.ok(variables.length > 4)
      assert.deepEqual(parseEnvironment(Object.fromEntries(variables)).faults, [])
      assert.ok(Number(valuesOf(unit, 'TimeoutStopSec')[0]) > STOP_SECONDS)
      assert.ok(Number(valuesOf(unit, 'TimeoutStartSec')[0]) * 1000 > REPORT_MS)
    })
  })
}

test('the unit for several gateways differs from the single one only in port, places and environment', () => {
  const [alone = [], several = []] = UNITS.map((name) =>
    read(name)
      .split('\n')
      .filter((line) => !line.startsWith('#')),
  )
  assert.deepEqual(
    several.filter((line) => !alone.includes(line)),
    [
      'Description=Countersign API gateway %i',
      'Environment=GATEWAY_REUSE_PORT=true',
      'Environment=GATEWAY_ADMIN_PORT=909%i',
      'Environment=GATEWAY_DATA_DIR=%S/countersign-%i',
      'Environment=GATEWAY_AUDIT_FILE=%S/countersign-%i/audit.ndjson',
      // The store is set in this file, so it is not optional.
      'EnvironmentFile=/etc/countersign/environment',
      'EnvironmentFile=-/etc/countersign/environment-%i',
      'StateDirectory=countersign-%i',
    ],
  )
  assert.equal(alone.filter((line) => !several.includes(line)).length, 5)
})
