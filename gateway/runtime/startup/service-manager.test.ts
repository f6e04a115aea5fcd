import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import { notifyServiceManager, startWatchdog } from './service-manager.ts'

const skip =
  spawnSync('systemd-notify', ['--version']).status === 0 && spawnSync('python3', ['--version']).status === 0
    ? false
    : 'NOT TESTED: systemd-notify or python3 is not installed (apt-get install systemd python3)'
/** Receives one datagram, as systemd does, and the barrier after it, which systemd-notify waits for. */
const RECEIVER = `
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
print('bound', flush=True)
print(s.recv(4096).decode(), flush=True)
s.recv(4096)
`

function setSocket(t: TestContext, path: string | undefined): void {
  const before = process.env.NOTIFY_SOCKET
  const set = (value: string | undefined) => {
    if (value === undefined) delete process.env.NOTIFY_SOCKET
    else process.env.NOTIFY_SOCKET = value
  }
  set(path)
  t.after(() => set(before))
}

test('systemd is told the state and the main process', { skip }, async (t) => {
  const dir = temporaryDirectory(t)
  const path = join(dir, 'notify')
  const receiver = spawn('python3', ['-c', RECEIVER, path], { stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  receiver.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
  })
  await once(receiver.stdout, 'data')
  setSocket(t, path)
  notifyServiceManager(['READY=1', 'MAINPID=4711'], assert.fail)
  await once(receiver, 'close')
  assert.deepEqual(text.split('\n').filter(Boolean), ['bound', 'READY=1', 'MAINPID=4711'])
})

test('a systemd that cannot be told is a fault, and no reason to end', { skip }, async (t) => {
  setSocket(t, '/nowhere/notify')
  const { promise, resolve } = Promise.withResolvers<Error>()
  notifyServiceManager(['READY=1'], resolve)
  assert.match((await promise).message, /systemd-notify/)
})

test('without systemd nobody is told', (t) => {
  setSocket(t, undefined)
  notifyServiceManager(['READY=1'], assert.fail)
})

test('systemd gets two signs of life in each period of its watchdog', (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  let signs = 0
  startWatchdog(() => signs++, '30000000')
  t.mock.timers.tick(14_999)
  assert.equal(signs, 0)
  t.mock.timers.tick(45_001)
  assert.equal(signs, 4)
})

test('no sign of life is given without a watchdog, or with an invalid period', (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  for (const period of [undefined, '', '0', '-1', '1e3', 'soon', '99999999999999'])
    startWatchdog(assert.fail, period)
  t.mock.timers.tick(3_600_000)
})
