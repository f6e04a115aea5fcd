import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { askRestart } from '../runtime/restart/control-socket.ts'
import { contradicted, unpaired } from './audit-pairs.ts'
import { call } from './client.ts'
import { LONGER } from './long-runs.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream } from './test-upstream.ts'

/** A restart takes about this long. */
const RESTART_MS = 1000
const alive = new Set<number>()

test('a process killed at any moment of a restart leaves no request without both records', async (t) => {
  t.after(() => {
    for (const pid of alive) kill(pid)
  })
  const upstream = await startUpstream((_req, res) => setTimeout(() => res.end('whole'), 5))
  const config = { upstream: upstream.url, routes: [{ path: '/*', auth: ['none'] }] }
  const seen = new Map<string, number>()
  let dir: string | undefined
  for (let run = 0; run < LONGER; run++) {
    const gateway: TestGateway = await startGateway({ config, ...(dir && { dir }) })
    dir = gateway.dir
    for (const one of await killOnce(gateway, run, Math.random() < 0.5 ? 'old' : 'new')) seen.set(...one)
  }
  // Recovers the records that the last run left open.
  const last = await startGateway({ config, ...(dir && { dir }) })
  assert.deepEqual(unpaired(last.audit()), [])
  assert.deepEqual(contradicted(last.audit(), seen), [])
  await last.end()
  upstream.close()
})

/** @returns the status of each response that a client has seen, by request id */
async function killOnce(
  gateway: TestGateway,
  run: number,
  victim: 'old' | 'new',
): Promise<Map<string, number>> {
  const old = gateway.process.child.pid as number
  alive.add(old)
  let over = false
  const seen = new Map<string, number>()
  const asking = [1, 2, 3].map(async (client) => {
    for (let asked = 0; !over; asked++) {
      const id = `run-${run}-${client}-${asked}`
      await call(gateway.url, { headers: { 'x-request-id': id } }).then(
        ({ status }) => seen.set(id, status),
        () => sleep(5),
      )
    }
  })
  await until(() => (seen.size > 0 ? true : undefined))
  const done = askRestart(join(gateway.dir, 'data'))
  const child = await until(() => childOf(old))
  alive.add(child)
  await sleep(RESTART_MS * Math.random())
  kill(victim === 'old' ? old : child)
  await done
  over = true
  await Promise.all(asking)
  // Kills the process that serves now, if any.
  for (const pid of [old, child]) {
    kill(pid)
    await until(() => (hasEnded(pid) ? true : undefined))
    alive.delete(pid)
  }
  return seen
}

/** A child of the process: the new process of a restart. */
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

/** Reads /proc. Undefined: there is no such process. */
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
