import assert from 'node:assert/strict'
import { readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { Agent, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { AuditRecord } from '../testing/audit-file.ts'
import { call } from './client.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

/**
 * Loaded before the gateway, this makes its disk wait while the data directory has a file `hold`, and fail while it has
 * `fail`. After each commit it writes down how much of the trail is on the disk, which a power loss would leave. It
 * writes by a rename, because a kill in the middle of a write in place could leave the file empty.
 */
const DISK = `
  import fs from 'node:fs'
  import { syncBuiltinESMExports } from 'node:module'
  const dir = process.env.GATEWAY_DATA_DIR
  const { fdatasync, fdatasyncSync } = fs
  const there = (name) => fs.existsSync(dir + '/' + name)
  const fault = () => Object.assign(new Error('EIO: i/o error, fdatasync'), { code: 'EIO' })
  fs.fdatasync = (fd, done) => {
    if (there('hold')) setTimeout(() => fs.fdatasync(fd, done), 2)
    else if (there('fail')) done(fault())
    else {
      const { size } = fs.fstatSync(fd)
      fdatasync(fd, (error) => {
        fs.writeFileSync(dir + '/committing', String(size))
        fs.renameSync(dir + '/committing', dir + '/committed')
        done(error)
      })
    }
  }
  fs.fdatasyncSync = (fd) => {
    if (there('fail')) throw fault()
    fdatasyncSync(fd)
  }
  syncBuiltinESMExports()
`

function responsesOf(records: readonly AuditRecord[]): Map<string, AuditRecord> {
  const found = new Map<string, AuditRecord>()
  for (const record of records) {
    if (record.type === 'API_RESPONSE') found.set(String(record.requestId), record)
  }
  return found
}

function assertPaired(records: readonly AuditRecord[]): void {
  const ids = (type: string) =>
    records.filter((record) => record.type === type).map(({ requestId }) => String(requestId))
  assert.deepEqual(ids('API_REQUEST').sort(), ids('API_RESPONSE').sort())
}

describe('the durability of the audit trail', () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  let forwarded: string[] = []
  const held: ServerResponse[] = []
  const agent = new Agent({ keepAlive: true })

  before(async () => {
    upstream = await startUpstream((req, res) => {
      forwarded.push(String(req.headers['x-request-id']))
      if (req.url === '/held') held.push(res)
      else if (req.url === '/chunked') res.write('wh', () => res.end('ole'))
      else setTimeout(() => res.writeHead(req.url === '/missing' ? 404 : 200).end('whole'), 3)
    })
  })
  after(async () => {
    agent.destroy()
    await gateway?.end('SIGKILL')
    upstream.close()
  })

  const start = async (durability: string, dir?: string) => {
    forwarded = []
    gateway = await startGateway({
      config: {
        upstream: upstream.url,
        audit: { durability },
        routes: [
          { path: '/*', auth: ['none'] },
          { path: '/closed', auth: ['bearer'] },
        ],
      },
      ...(dir && { dir }),
      env: { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(DISK)}` },
    })
  }
  const ask = (path: string, requestId: string) =>
    call(gateway.url + path, { headers: { 'x-request-id': requestId }, agent })
  const disk = (name: string) => join(gateway.dir, 'data', name)

  /** Sends requests until clients have `count` responses, then kills. @returns the statuses, by request id */
  const killInTheMiddle = async (count: number) => {
    const seen = new Map<string, number>()
    let sent = 0
    const paths = ['/ok', '/missing', '/chunked', '/closed']
    const knock = async () => {
      for (;;) {
        const requestId = `crash-${sent++}`
        const { status } = await ask(paths[sent % paths.length] as string, requestId)
        seen.set(requestId, status)
        if (seen.size === count) gateway.process.child.kill('SIGKILL')
      }
    }
    await Promise.allSettled(Array.from({ length: 8 }, knock))
    assert.ok(seen.size >= count, `${seen.size} responses`)
    assert.equal(await gateway.process.ended, 'SIGKILL')
    return seen
  }

  it('synced: a power loss leaves every request that was forwarded and every response that clients saw', async () => {
    await start('synced')
    const seen = await killInTheMiddle(200)
    const reached = new Set(forwarded)
    truncateSync(gateway.auditFile, Number(readFileSync(disk('committed'), 'utf8')))
    await start('synced', gateway.dir)
    const records = gateway.audit()
    assertPaired(records)
    const responses = responsesOf(records)
    for (const [requestId, status] of seen) {
      assert.deepEqual([requestId, responses.get(requestId)?.statusCode], [requestId, status])
    }
    for (const requestId of reached) assert.ok(responses.has(requestId), requestId)
  })

  it('synced: a request waits for the disk, and so does the last byte of its response', async () => {
    writeFileSync(disk('hold'), '')
    const first = ask('/held', 'first')
    const refused = ask('/closed', 'refused')
    let early = 0
    for (const waiting of [first, refused]) void waiting.then(() => early++)
    await until(() => (readFileSync(gateway.auditFile, 'utf8').includes('"first"') ? true : undefined))
    // In this time a request would go to the upstream and back many times.
    for (let i = 0; i < 200; i++) await call(`${gateway.adminUrl}/healthz`, { agent })
    assert.deepEqual([forwarded.includes('first'), early], [false, 0])
    rmSync(disk('hold'))
    await until(() => (held.length === 1 ? true : undefined))
    assert.equal((await refused).status, 401)
    writeFileSync(disk('hold'), '')
    held.shift()?.end('whole')
    await until(() => (responsesOf(gateway.audit()).get('first') === undefined ? undefined : true))
    for (let i = 0; i < 200; i++) await call(`${gateway.adminUrl}/healthz`, { agent })
    assert.equal(early, 1)
    rmSync(disk('hold'))
    assert.deepEqual([(await first).status, (await first).body], [200, 'whole'])
  })

  it('synced: requests and /readyz get 503 while the disk does not commit, and 200 once it does again', async () => {
    const admitted = ask('/held', 'admitted')
    await until(() => (held.length === 1 ? true : undefined))
    writeFileSync(disk('fail'), '')
    for (let i = 0; i < 3; i++) {
      const { status, json } = await ask('/ok', `unsafe-${i}`)
      assert.deepEqual([status, json().code], [503, 'audit_unavailable'])
    }
    held.shift()?.end('whole')
    assert.equal((await call(`${gateway.adminUrl}/readyz`)).status, 503)
    assert.equal(forwarded.filter((requestId) => requestId.startsWith('unsafe')).length, 0)
    rmSync(disk('fail'))
    assert.equal((await admitted).status, 200)
    await until(async () => ((await call(`${gateway.adminUrl}/readyz`)).status === 200 ? true : undefined))
    assert.equal((await ask('/ok', 'safe')).status, 200)
    const records = gateway.audit()
    assertPaired(records)
    assert.ok(!records.some(({ requestId }) => requestId?.startsWith('unsafe')))
    const responses = responsesOf(records)
    assert.deepEqual(
      ['admitted', 'safe'].map((requestId) => responses.get(requestId)?.statusCode),
      [200, 200],
    )
    assert.equal(records.find(({ reason }) => reason !== undefined)?.reason, 'write failed: EIO')
    assert.equal(await gateway.end(), 0)
  })

  it('written: a kill leaves every request that was forwarded and every response that clients saw', async () => {
    await start('written')
    const seen = await killInTheMiddle(400)
    const reached = new Set(forwarded)
    await start('written', gateway.dir)
    const records = gateway.audit()
    assertPaired(records)
    const responses = responsesOf(records)
    for (const [requestId, status] of seen) {
      assert.deepEqual([requestId, responses.get(requestId)?.statusCode], [requestId, status])
    }
    for (const requestId of reached) assert.ok(responses.has(requestId), requestId)
    assert.equal(await gateway.end(), 0)
  })

  it('buffered: a kill loses only the records of the last moment, and an orderly end loses none', async () => {
    await start('buffered')
    const seen = [...(await killInTheMiddle(200))]
    await start('buffered', gateway.dir)
    assertPaired(gateway.audit())
    const responses = responsesOf(gateway.audit())
    const last = new Set(seen.slice(-100).map(([requestId]) => requestId))
    for (const [requestId, status] of seen) {
      const response = responses.get(requestId)
      assert.ok(response?.statusCode === status || last.has(requestId), requestId)
    }
    const asked = Array.from({ length: 40 }, (_, i) => `orderly-${i}`)
    await Promise.all(asked.map((requestId) => ask('/ok', requestId)))
    assert.equal(await gateway.end(), 0)
    const records = gateway.audit()
    assertPaired(records)
    assert.ok(asked.every((requestId) => responsesOf(records).get(requestId)?.statusCode === 200))
    assert.deepEqual([records.at(-1)?.type, records.at(-1)?.open], ['AUDIT_STOP', 0])
  })
})
