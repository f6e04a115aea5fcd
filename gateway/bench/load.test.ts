import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { judge } from '../auth/signatures/signed-request.test-support.ts'
import { profileOf } from '../config/clients/signature-profiles.ts'
import { temporaryDirectory } from '../storage/temporary-directory.test-support.ts'
import { startChild } from './child.ts'
import type { LoadJob } from './load-job.ts'
import { carryOut } from './measure.ts'

const LOAD = fileURLToPath(new URL('./load.ts', import.meta.url))
const ONLY_LINUX = { skip: process.platform !== 'linux' && 'needs Linux' }

it('goes on with the token after the last one of the same contender', ONLY_LINUX, async (t) => {
  const dir = temporaryDirectory(t)
  const tokensFile = join(dir, 'tokens')
  const names = Array.from({ length: 100_000 }, (_, i) => String(i))
  writeFileSync(tokensFile, names.join('\n'))
  const contenders = await Promise.all(
    [0, 1].map(async () => {
      const seen: string[] = []
      const server = createServer((socket) => {
        socket.on('error', () => {})
        socket.on('data', (bytes) => {
          seen.push(/Bearer (\d+)/.exec(bytes.toString())?.[1] ?? '')
          socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
        })
      }).listen(0, '127.0.0.1')
      await once(server, 'listening')
      t.after(() => server.close())
      return { seen, port: (server.address() as AddressInfo).port }
    }),
  )
  const load = startChild({ command: [process.execPath, LOAD], cpus: undefined, ipc: true })
  t.after(() => load.end())
  const request = { method: 'GET', path: '/', body: '', tokensFile, tokens: names.length } as const
  const jobOf = (port: number): LoadJob => ({
    ports: [port],
    request: { ...request, order: 'cyclic', responseBytes: 2 },
    connections: 1,
    idleConnections: 0,
    warmUpMs: 10,
    measureMs: 50,
    perSecond: undefined,
    pids: [process.pid],
  })
  for (const { port } of [...contenders, ...contenders]) await carryOut(load, jobOf(port))
  for (const { seen } of contenders) assert.deepEqual(seen, names.slice(1, seen.length + 1))
})

it('signs each request for itself by the profile fapi-2 if the job says so', ONLY_LINUX, async (t) => {
  const dir = temporaryDirectory(t)
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const [tokensFile, signingKeyFile] = [join(dir, 'tokens'), join(dir, 'key.pem')]
  writeFileSync(tokensFile, 'one\ntwo')
  writeFileSync(signingKeyFile, privateKey.export({ type: 'pkcs8', format: 'pem' }))
  const seen: string[] = []
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.on('data', (bytes) => {
      seen.push(bytes.toString())
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  const load = startChild({ command: [process.execPath, LOAD], cpus: undefined, ipc: true })
  t.after(() => load.end())
  const order = { tokens: 2, order: 'own', responseBytes: 2 } as const
  const job: LoadJob = {
    ports: [(server.address() as AddressInfo).port],
    request: { method: 'POST', path: '/pay?a=1', body: '{"amount":1}', tokensFile, ...order, signed: true },
    signingKeyFile,
    connections: 2,
    idleConnections: 0,
    warmUpMs: 10,
    measureMs: 50,
    perSecond: undefined,
    pids: [process.pid],
  }
  // On a busy machine one run may send only two requests, one on each connection.
  for (let runs = 0; runs < 2; runs++) await carryOut(load, job)
  const jwks = [{ ...publicKey.export({ format: 'jwk' }), kid: 'ES256' }]
  const client = { id: 'bench', jwks, profile: profileOf({ profile: 'fapi-2' }) }
  const judged = seen.map((text) => {
    const [head = '', body = ''] = text.split('\r\n\r\n')
    const fields = head
      .split('\r\n')
      .slice(1)
      .map((line) => line.split(': ') as [string, string])
    const message = { method: 'POST', target: '/pay?a=1', authority: 'api.example.test', body, fields }
    return judge(message, [client], Date.now())
  })
  assert.ok(judged.length > 2)
  assert.deepEqual(new Set(judged.map(({ fault }) => fault)), new Set([undefined]))
  assert.equal(new Set(judged.map(({ unique }) => unique)).size, judged.length)
})
