import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { askRestart } from '../runtime/restart/control-socket.ts'
import { socketOf } from '../runtime/restart/sockets.ts'
import { writeConfiguration } from '../testing/configuration-files.ts'
import { call } from './client.ts'
import { until } from './running-gateway.ts'
import { startUpstream } from './test-upstream.ts'

test('under systemd, the gateway takes its socket, says when it is ready and names its new process', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'countersign-systemd-'))
  const upstream = await startUpstream((_req, res) => res.end('whole'))
  const pids: number[] = []
  t.after(() => {
    for (const pid of pids) {
      try {
        process.kill(pid, 'SIGKILL')
      } catch {
        // It has ended.
      }
    }
    upstream.close()
    rmSync(dir, { recursive: true, force: true })
  })
  const places = writeConfiguration(dir, {
    config: { upstream: upstream.url, routes: [{ path: '/*', auth: ['none'] }] },
  })
  const told = join(dir, 'told')
  const notify = join(dir, 'systemd-notify')
  writeFileSync(notify, `#!/bin/sh\necho "$@" >> '${told}'\n`)
  chmodSync(notify, 0o700)
  writeFileSync(told, '')
  const heard = () =>
    readFileSync(told, 'utf8')
      .split('\n')
      .filter((line) => line !== '')

  const socket = createServer().listen(0, '127.0.0.1')
  await once(socket, 'listening')
  const url = `http://127.0.0.1:${(socket.address() as AddressInfo).port}`
  const program = `LISTEN_PID=$$ exec '${process.execPath}' '${process.env.TEST_GATEWAY || 'gateway/main.ts'}'`
  const child = spawn('sh', ['-c', program], {
    env: {
      ...places,
      PATH: `${dir}:${process.env.PATH}`,
      GATEWAY_DRAIN_GRACE_MS: '0',
      NOTIFY_SOCKET: join(dir, 'notify'),
      LISTEN_FDS: '1',
    },
    stdio: ['ignore', 'ignore', 'inherit', socketOf(socket)?.fd],
  })
  pids.push(child.pid as number)
  socket.close()
  assert.equal((await call(url)).body, 'whole')
  await until(() => (heard().length === 1 ? true : undefined))

  const { restarted, text } = await askRestart(join(dir, 'data'))
  assert.ok(restarted, text)
  const pid = Number(/^process (\d+)/.exec(text)?.[1])
  pids.push(pid)
  assert.deepEqual(await once(child, 'exit'), [0, null])
  assert.equal((await call(url)).body, 'whole')
  process.kill(pid, 'SIGTERM')
  await until(() => (heard().at(-1) === 'STOPPING=1' ? true : undefined))
  const ready = (main = 0) => `READY=1 MAINPID=${main}`
  assert.deepEqual([...new Set(heard())], [ready(child.pid), ready(pid), 'STOPPING=1'])
})
