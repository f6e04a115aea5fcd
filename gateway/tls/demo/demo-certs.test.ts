import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { PROGRAM } from '../../cli/program.test-support.ts'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import { TestServer, verdictOn } from '../listener/connect.test-support.ts'
import { loadTls } from '../listener/tls-reload.ts'
import type { Authority, Issued } from './throw-away-ca.ts'

function folderOf(t: TestContext): string {
  return join(temporaryDirectory(t), 'certs')
}

function run(...args: string[]) {
  // The child runs without the tests' loader, so its coverage could not be added to theirs.
  const env = { ...process.env, NODE_V8_COVERAGE: '' }
  return spawnSync(process.execPath, [PROGRAM, 'certs', 'demo', ...args], { encoding: 'utf8', env })
}

test('the demo certificates work unchanged, and the revoked client is refused with the list that revokes it', async (t) => {
  const folder = folderOf(t)
  const { status, stdout, stderr } = run(folder)
  assert.equal(status, 0, stderr)
  const read = (name: string) => readFileSync(join(folder, name), 'utf8')
  const issued = (name: string) =>
    ({ certPem: read(`${name}.pem`), keyPem: read(`${name}-key.pem`) }) as Issued
  const ca = { certPem: read('ca.pem') } as Authority
  const materialWith = (list: string) => {
    const at = (name: string) => join(folder, name)
    const { value, faults } = loadTls(
      {
        certFile: at('server.pem'),
        keyFile: at('server-key.pem'),
        clientCaFile: at('ca.pem'),
        clientCrlFile: at(list),
        ticketKeyFile: undefined,
        ocspFile: undefined,
      },
      Date.now(),
    )
    assert.deepEqual(faults, undefined)
    assert.deepEqual(value?.material.warnings, [])
    assert.ok(value)
    return value.material
  }
  const server = await TestServer.start(t, materialWith('crl.pem'))
  assert.equal((await verdictOn(server, ca, { certificate: issued('client') })).authorized, true)
  assert.ok(stdout.includes(`"thumbprint": "${server.peer?.thumbprintHex}"`))
  assert.ok(stdout.includes(`"subject": "${server.peer?.subject}"`))
  assert.ok(stdout.includes(`"sanUri": "${server.peer?.sanUri[0]}"`))
  assert.equal((await verdictOn(server, ca, { certificate: issued('revoked') })).authorized, true)
  server.swap(materialWith('crl-revoking.pem'))
  assert.equal((await verdictOn(server, ca, { certificate: issued('revoked') })).reason, 'it was revoked')
  assert.equal((await verdictOn(server, ca, { certificate: issued('client') })).authorized, true)
  const names = new X509Certificate(read('server.pem')).subjectAltName
  assert.equal(names, 'DNS:localhost, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1')
  for (const name of readdirSync(folder)) {
    const mode = statSync(join(folder, name)).mode & 0o777
    assert.equal(mode, 0o600, name)
  }
})

test('demo certificates that are there already are overwritten only when told to', (t) => {
  const folder = folderOf(t)
  assert.equal(run(folder).status, 0)
  const before = readFileSync(join(folder, 'server.pem'), 'utf8')
  const again = run(folder)
  assert.equal(again.status, 1)
  assert.match(again.stderr, /already holds ca\.pem, server\.pem, .*--force makes them anew/)
  assert.equal(readFileSync(join(folder, 'server.pem'), 'utf8'), before)
  assert.equal(run(folder, '--force').status, 0)
  assert.notEqual(readFileSync(join(folder, 'server.pem'), 'utf8'), before)
})
