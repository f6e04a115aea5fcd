import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { temporaryDirectory } from '../storage/temporary-directory.test-support.ts'
import { askAdmin } from './admin-client.ts'
import { countersign } from './program.test-support.ts'

/** Starts a server, and gives its URL and a folder. */
async function serve(t: TestContext, respond: RequestListener) {
  const folder = temporaryDirectory(t)
  const server = createServer(respond).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { folder, port, admin: `http://127.0.0.1:${port}` }
}

test('a gateway is found by a gateway.json that begins with a byte order mark', async (t) => {
  const { folder, port, admin } = await serve(t, (_, res) => res.end('found'))
  const file = join(folder, 'gateway.json')
  writeFileSync(file, `\uFEFF${JSON.stringify({ adminHost: '127.0.0.1', adminPort: port })}`)
  const { url, body } = await askAdmin({
    method: 'GET',
    path: '/healthz',
    flags: {},
    env: { GATEWAY_CONFIG: file },
    signed: false,
  })
  assert.deepEqual([url, body], [`${admin}/healthz`, 'found'])
})

test('without a token the fault asks for one, and for a refused token it names the file', async (t) => {
  const { folder, admin } = await serve(t, (_, res) => res.writeHead(401).end())
  const asked = (flags: Record<string, string>) =>
    askAdmin({ method: 'GET', path: '/config', flags: { admin, ...flags }, env: {} })
  await assert.rejects(asked({}), { message: /\/config wants a token: name its file by --token-file/ })
  const file = join(folder, 'token')
  writeFileSync(file, 'x'.repeat(32), { mode: 0o600 })
  await assert.rejects(asked({ 'token-file': file }), {
    message: `${admin}/config refuses the token in ${file}: the gateway has another one`,
  })
})

test('health says by --json too that nobody answers', async () => {
  const admin = 'http://127.0.0.1:1'
  for (const [path, ...live] of [['readyz'], ['healthz', '--live']] as const) {
    const { status, stdout } = await countersign(['health', ...live, '--json', '--admin', admin])
    const reason = `${admin}/${path} does not answer: connect ECONNREFUSED 127.0.0.1:1`
    assert.deepEqual([status, JSON.parse(stdout)], [1, { healthy: false, state: 'no answer', reason }])
  }
})

test('health tells a refusal as not ready or not alive, as asked, and names no flag that health lacks', async (t) => {
  const { admin } = await serve(t, (_, res) => res.writeHead(401).end('needs a login\n'))
  const ask = (...flags: string[]) => countersign(['health', ...flags, '--admin', admin])
  assert.equal((await ask()).stderr, 'not ready: needs a login\n')
  const { status, stdout, stderr } = await ask('--live')
  assert.deepEqual([status, stdout, stderr], [1, '', 'not alive: needs a login\n'])
  const fault = { healthy: false, state: 'not alive', reason: 'needs a login' }
  assert.deepEqual(JSON.parse((await ask('--live', '--json')).stdout), fault)
})
