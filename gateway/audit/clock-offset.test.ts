import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { clockOffset } from './clock-offset.ts'
import { temporaryDirectory } from './trail.test-support.ts'

const LONG_MS = 60_000

/** A PATH with programs that run these shell scripts. */
function programs(t: TestContext, scripts: Record<string, string>): NodeJS.ProcessEnv {
  const directory = join(temporaryDirectory(t), 'with space')
  mkdirSync(directory)
  for (const [name, script] of Object.entries(scripts)) {
    writeFileSync(join(directory, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  }
  return { PATH: directory }
}
const printing = (text: string) => `printf '%s\\n' '${text}'`

const CHRONY =
  '0A000001,10.0.0.1,3,1700000000.1,0.000006523,-0.000006747,0.00003,-1.2,0.0,0.0,0.01,0.001,64.0,Normal'
const TIMESYNC =
  '       Server: 185.125.190.58 (ntp.ubuntu.com)\n       Offset: OFFSET\n        Delay: 22.6ms\n       Jitter: 2.1ms'

const ANSWERS: readonly [program: string, output: string, offsetMs: number | undefined][] = [
  ['chronyc', CHRONY, 0.007],
  ['chronyc', CHRONY.replace('0.000006523', '-1.5'), -1500],
  ['chronyc', CHRONY.replace('Normal', 'Not synchronised'), undefined],
  ['chronyc', '506 Cannot talk to daemon', undefined],
  ['ntpq', 'leap=00, offset=-0.1234', -0.123],
  ['ntpq', 'leap=11, offset=0.000', undefined],
  ['ntpq', 'leap=00', undefined],
  ['timedatectl', TIMESYNC.replace('OFFSET', '-1.353ms'), -1.353],
  ['timedatectl', TIMESYNC.replace('OFFSET', '+18us'), 0.018],
  ['timedatectl', TIMESYNC.replace('OFFSET', '+1min 2.003s'), 62_003],
  ['timedatectl', TIMESYNC.replace('OFFSET', '+0'), 0],
  ['timedatectl', TIMESYNC.replace('OFFSET', '+1 fortnight'), undefined],
  ['timedatectl', '       Server: n/a', undefined],
]

test('the offset of the clock is what the program of the system says, in milliseconds', async (t) => {
  const asked = ANSWERS.map(async ([program, output, clockOffsetMs]) => {
    const found = await clockOffset(LONG_MS, programs(t, { [program]: printing(output) }))
    const expected = clockOffsetMs === undefined ? undefined : { clockOffsetMs, clockSource: program }
    assert.deepEqual(found, expected, output)
  })
  await Promise.all(asked)
})

test('the first program that knows the offset is believed; when none knows, there is no offset', async (t) => {
  const both = programs(t, {
    chronyc: 'exit 1',
    ntpq: printing('leap=00, offset=7'),
    timedatectl: printing(TIMESYNC.replace('OFFSET', '+9ms')),
  })
  assert.deepEqual(await clockOffset(LONG_MS, both), { clockOffsetMs: 7, clockSource: 'ntpq' })
  assert.equal(await clockOffset(LONG_MS, programs(t, {})), undefined)
})

test('only programs that a directory of PATH holds are started', async (t) => {
  let started = 0
  const count = () => void started++
  subscribe('child_process', count)
  t.after(() => unsubscribe('child_process', count))
  const { PATH: first } = programs(t, {})
  const { PATH: second } = programs(t, { ntpq: printing('leap=00, offset=7') })
  assert.equal(await clockOffset(LONG_MS, { PATH: first }), undefined)
  assert.equal(started, 0)
  const PATH = ['/nowhere', first, second].join(delimiter)
  assert.deepEqual(await clockOffset(LONG_MS, { PATH }), { clockOffsetMs: 7, clockSource: 'ntpq' })
  assert.equal(started, 1)
})

test('a program that hangs, leaves a child that holds its output, or never stops printing gives no offset', async (t) => {
  const scripts = ['while :; do :; done', '/bin/sleep 3 & wait', 'while :; do echo flood; done']
  const asked = scripts.map((script) => clockOffset(50, programs(t, { chronyc: script })))
  assert.deepEqual(await Promise.all(asked), [undefined, undefined, undefined])
})

test('an answer that has come is read, however long the start kept the thread busy meanwhile', async (t) => {
  const answered = join(temporaryDirectory(t), 'answered')
  const env = programs(t, { chronyc: `${printing(CHRONY)}; : >'${answered}'` })
  const timeoutMs = 1000
  const startMs = performance.now()
  const asked = clockOffset(timeoutMs, env)
  while (performance.now() < startMs + timeoutMs || !existsSync(answered)) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10)
  }
  assert.deepEqual(await asked, { clockOffsetMs: 0.007, clockSource: 'chronyc' })
})
