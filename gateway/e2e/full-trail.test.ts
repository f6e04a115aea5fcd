import assert from 'node:assert/strict'
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { readAudit } from '../testing/audit-file.ts'
import { call } from './client.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { mountSmallDisk, NO_SMALL_DISK, type SmallDisk } from './small-disk.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const probe = mountSmallDisk()
probe?.remove()

describe('a trail on a full disk', { skip: probe === undefined ? NO_SMALL_DISK : false }, () => {
  let upstream: TestUpstream
  let disk: SmallDisk
  let gateway: TestGateway
  let held: (() => void)[] = []

  before(async () => {
    upstream = await startUpstream((_req, res) => {
      held.push(() => res.end('done'))
    })
  })
  after(() => upstream.close())

  const start = async (env: Readonly<Record<string, string>>) => {
    disk = mountSmallDisk() as SmallDisk
    held = []
    gateway = await startGateway({
      config: { upstream: upstream.url, routes: [{ path: '/*', auth: ['none'] }] },
      env: { GATEWAY_AUDIT_FILE: join(disk.dir, 'trail', 'audit.ndjson'), ...env },
    })
  }
  const trail = () => readAudit(join(disk.dir, 'trail', 'audit.ndjson'))
  const seen = new Map<string, number>()
  /** Fills the disk while the service has so many requests, which it then responds to. */
  const begin = async (count: number) => {
    const calls = Array.from({ length: count }, async (_, i) => {
      const { status } = await call(`${gateway.url}/${i}`, { headers: { 'x-request-id': `request-${i}` } })
      seen.set(`request-${i}`, status)
    })
    const ended = Promise.allSettled(calls)
    await until(() => held.length === count || undefined)
    disk.fill()
    for (const answer of held) answer()
    return ended
  }

  for (const env of [{}, { GATEWAY_AUDIT_DURABILITY: 'synced' }]) {
    const title = Object.values(env).join() || 'written'
    it(`shows no client a response that a crash would lose: ${title}`, async () => {
      await start(env)
      try {
        seen.clear()
        const ended = begin(40)
        for (const state of ['audit_writable', 'ready']) {
          await until(
            async () =>
              (await call(`${gateway.adminUrl}/metrics`)).body.includes(`\ngateway_${state} 0\n`) ||
              undefined,
          )
        }
        await gateway.end('SIGKILL')
        await ended
        disk.free()
        const next = await startGateway({
          config: {},
          dir: gateway.dir,
          env: { GATEWAY_AUDIT_FILE: join(disk.dir, 'trail', 'audit.ndjson') },
        })
        const responses = new Map(
          trail().flatMap((record) =>
            record.type === 'API_RESPONSE' ? [[String(record.requestId), record.statusCode]] : [],
          ),
        )
        assert.equal(responses.size, 40)
        for (const [id, status] of seen) assert.equal(responses.get(id), status, id)
        assert.ok(seen.size < 40)
        await next.end('SIGKILL')
      } finally {
        disk.remove()
      }
    })
  }

  it('sends held responses if there is soon room again, and otherwise breaks them off', async () => {
    await start({})
    try {
      seen.clear()
      const ended = begin(40)
      await until(async () => (await gateway.metric('gateway_audit_writable')) === 0 || undefined)
      assert.ok(seen.size < 40)
      disk.free()
      await ended
      assert.equal(await gateway.metric('gateway_audit_writable'), 1)
      assert.deepEqual(new Set(seen.values()), new Set([200]))
      assert.equal(seen.size, 40)
      held = []
      seen.clear()
      await begin(40)
      assert.ok(seen.size < 40)
      disk.free()
      await until(async () => (await call(`${gateway.adminUrl}/readyz`)).status === 200 || undefined)
      const responses = trail().filter(({ type }) => type === 'API_RESPONSE')
      assert.equal(responses.length, 80)
      assert.ok(responses.every(({ statusCode }) => statusCode === 200))
    } finally {
      await gateway.end('SIGKILL')
      disk.remove()
    }
  })

  it('that the trail itself filled has room again when the trail is removed, also with seals', async () => {
    await start({ GATEWAY_AUDIT_SEALS: 'on' })
    try {
      const status = async (path: string) => {
        // Status 0: the gateway broke the response off, because it could not be recorded in time.
        const ended = call(`${gateway.url}${path}`).catch(() => ({ status: 0 }))
        const answering = setInterval(() => {
          for (const answer of held.splice(0)) answer()
        }, 1)
        return (await ended.finally(() => clearInterval(answering))).status
      }
      const path = `/${'x'.repeat(4000)}`
      await until(async () => (await status(path)) === 503 || undefined)
      const file = join(disk.dir, 'trail', 'audit.ndjson')
      rmSync(file)
      // The removed file may still take a small record, so the new file may come later.
      await until(() => existsSync(file) || undefined)
      await until(async () => (await call(`${gateway.adminUrl}/readyz`)).status === 200 || undefined)
      assert.equal(await status('/after'), 200)
      await until(() => trail().find(({ type, removed }) => type === 'AUDIT_START' && removed === true))
      await until(async () => (await gateway.metric('gateway_audit_unsealed_records')) === 0 || undefined)
    } finally {
      await gateway.end('SIGKILL')
      disk.remove()
    }
  })

  it('begins a new file when its own is removed, and log and trail say so', async () => {
    await start({})
    try {
      const file = join(disk.dir, 'trail', 'audit.ndjson')
      rmSync(join(disk.dir, 'trail'), { recursive: true })
      await gateway.process.line(({ cause }) =>
        /was removed while the gateway was writing it/.test(String(cause)),
      )
      await until(() => existsSync(file) || undefined)
      await until(() => trail().find(({ removed }) => removed === true))
      const ended = call(`${gateway.url}/after`)
      await until(() => held.length === 1 || undefined)
      held[0]?.()
      assert.equal((await ended).status, 200)
      assert.ok((await gateway.metric('gateway_audit_write_errors_total')) > 0)
      assert.equal(trail().filter(({ path }) => path === '/after').length, 2)
    } finally {
      await gateway.end('SIGKILL')
      disk.remove()
    }
  })
})
