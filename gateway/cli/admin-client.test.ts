import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { askAdmin } from './admin-client.ts'

test('a gateway is found by a gateway.json that begins with a byte order mark', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'admin-client-'))
  const server = createServer((_, res) => res.end('found')).listen(0, '127.0.0.1')
  t.after(() => {
    server.close()
    rmSync(folder, { recursive: true, force: true })
  })
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const file = join(folder, 'gateway.json')
  writeFileSync(file, `\uFEFF${JSON.stringify({ adminHost: '127.0.0.1', adminPort: port })}`)
  const { url, body } = await askAdmin({
    method: 'GET',
    path: '/healthz',
    flags: {},
    env: { GATEWAY_CONFIG: file },
    signed: false,
  })
  assert.deepEqual([url, body], [`http://127.0.0.1:${port}/healthz`, 'found'])
})
