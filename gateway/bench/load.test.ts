import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { startChild } from './child.ts'
import type { LoadJob } from './load-job.ts'
import { carryOut } from './measure.ts'

const LOAD = fileURLToPath(new URL('./load.ts', import.meta.url))
const ONLY_LINUX = { skip: process.platform !== 'linux' && 'needs Linux' }

it('goes on with the token after the last that the same contender has had', ONLY_LINUX, async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'countersign-load-'))
  t.after(() => rmSync(dir, { recursive: true }))
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
