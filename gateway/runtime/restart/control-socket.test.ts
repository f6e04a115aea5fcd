import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { askRestart } from './control-socket.ts'

test('a gateway that accepts and says nothing does not keep the command waiting', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'control-'))
  const sockets: Socket[] = []
  const server = createServer((socket) => void sockets.push(socket))
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
    rmSync(dir, { recursive: true })
  })
  await once(server.listen(join(dir, 'control.sock')), 'listening')
  assert.deepEqual(await askRestart(dir, 20), {
    restarted: false,
    text: 'the gateway has said nothing for 0.02 s: it hangs, or may still restart; see its log',
  })
})
