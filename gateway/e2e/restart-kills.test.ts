import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { askRestart } from '../process/restart/control-socket.ts'
import { unpaired } from './audit-pairs.ts'
import { call } from './client.ts'
import { LONGER } from './long-runs.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream } from './test-upstream.ts'

/** A restart with two workers takes about this long. */
const RESTART_MS = 2000
const alive = new Set<number>()
after(() => {
  for (const pid of alive) kill(pid)
})

test('a process that is killed at any moment of a restart with workers leaves no request without its records', async () => {
  const upstream = await startUpstream((_req, res) => setTimeout(() => res.end('whole'), 5))
  const config = { upstream: upstream.url, routes: [{ path: '/*', auth: ['none'] }] }
  let dir: string | undefined
  for (let run = 0; run < LONGER; run++) {
    const gateway: TestGateway = await startGateway({
      config,
      env: { GATEWAY_WORKERS: '2' },
      ...(dir && { dir }),
    })
    dir = gateway.dir
    await killOnce(gateway, Math.random() < 0.5 ? 'old' : 'new')
  }
  // Recovers what the last one left.
  const last = await startGateway({ config, ...(dir && { dir }) })
  assert.deepEqual(unpaired(last.audit()), [])
  await last.end()
  upstream.close()
})

async function killOnce(gateway: TestGateway, victim: 'old' | 'new'): Promise<void> {
  const old = gateway.process.child.pid as number
  alive.add(old)
  let over = false
  const asking = [1, 2, 3].map(async () => {
    while (!over) await call(gateway.url).catch(() => sleep(5))
  })
  const done = askRestart(join(gateway.dir, 'data'))
  const child = await until(() => childOf(old))
  alive.add(child)
  await sleep(RESTART_MS * Math.random())
  kill(victim === 'old' ? old : child)
  await done
  over = true
  await Promise.all(asking)
  // Whoever serves now, or nobody.
  for (const pid of [old, child]) {
    kill(pid)
    await until(() => (hasEnded(pid) ? true : undefined))
    alive.delete(pid)
  }
}

/** The process that takes over from it. */
function childOf(parent: number): number | undefined {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .find((pid) => statusOf(pid)?.parent === parent)
}

function hasEnded(pid: number): boolean {
  const state = statusOf(pid)?.state
  return state === undefined || state === 'Z'
}

/** proc(5); undefined: there is no such process. */
function statusOf(pid: number): { readonly state: string; readonly parent: number } | undefined {
  try {
    const [state = '', parent] = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
    return { state, parent: Number(parent) }
  } catch {
    return undefined
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended.
  }
}
