import assert from 'node:assert/strict'
import { chmodSync, existsSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { makeSealKey, readSealKey } from '../audit/seals/seal-key.ts'
import { checkSeal, wholeTrail } from '../audit/seals/sealed-trail.test-support.ts'
import { stampedPath } from '../audit/segments/segment.ts'
import { unpaired } from '../audit/trail.test-support.ts'
import { call } from './client.ts'
import { LONGER } from './long-runs.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

/** 300 in a long run. */
const KILLS = LONGER === 1 ? 5 : 15 * LONGER
const CLIENTS = 8

describe('the seals of the audit trail', () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  let dir: string | undefined

  before(async () => {
    upstream = await startUpstream((_req, res) => res.end('fine'))
  })
  after(async () => {
    await gateway?.end('SIGKILL')
    upstream.close()
  })

  const start = async (env: Record<string, string> = {}) => {
    const config = { upstream: upstream.url, routes: [{ path: '/*', auth: ['none'] }] }
    gateway = await startGateway({ config, ...(dir && { dir }), env: { GATEWAY_AUDIT_SEALS: 'on', ...env } })
    dir = gateway.dir
  }
  const keyFile = () => join(gateway.dir, 'data', 'audit-seal-key.pem')
  const check = () => checkSeal(gateway.auditFile, readSealKey(keyFile()))

  it('are made while the gateway runs, and an orderly end writes a seal over all lines as the last one', async () => {
    await start()
    assert.equal(statSync(keyFile()).mode & 0o777, 0o600)
    for (let i = 0; i < 3; i++) await call(`${gateway.url}/${i}`)
    // AUDIT_START and three pairs.
    await until(async () => (await gateway.metric('gateway_audit_tree_size')) >= 7 || undefined)
    await until(() => gateway.audit().some(({ type }) => type === 'AUDIT_SEAL') || undefined)
    await until(async () => (await gateway.metric('gateway_audit_unsealed_records')) === 0 || undefined)
    assert.equal(await gateway.metric('gateway_audit_seal_faults_total'), 0)
    assert.ok((await gateway.metric('gateway_audit_last_seal_timestamp_seconds')) > 1_700_000_000)
    assert.equal(await gateway.end(), 0)
    const { checkpoint, rest } = await check()
    const records = gateway.audit()
    assert.deepEqual(
      records.slice(-2).map(({ type }) => type),
      ['AUDIT_STOP', 'AUDIT_SEAL'],
    )
    assert.equal(checkpoint.size, records.length - 1)
    assert.deepEqual(rest, [records.at(-1)])
    assert.equal(rest[0]?.root, checkpoint.root.toString('base64'))
  })

  it('go on at the next start after a kill, with each durability', async () => {
    const seen: string[] = []
    const variants = [
      // Lines that are not yet written may be lost, but not if they are sealed.
      { GATEWAY_AUDIT_DURABILITY: 'buffered' },
      { GATEWAY_AUDIT_DURABILITY: 'synced' },
      { GATEWAY_AUDIT_DURABILITY: 'written' },
    ]
    for (let kill = 0; kill < KILLS; kill++) {
      const variant = variants[kill % variants.length]
      await start(variant)
      let answers = 0
      const sealed = await gateway.metric('gateway_audit_tree_size')
      let isOver = false
      const clients = Array.from({ length: CLIENTS }, async (_, client) => {
        for (let i = 0; !isOver; i++) {
          const id = `kill-${kill}-${client}-${i}`
          await call(`${gateway.url}/load`, { headers: { 'x-request-id': id } }).then(
            ({ status }) => {
              answers++
              if (status === 200 && variant?.GATEWAY_AUDIT_DURABILITY !== 'buffered') seen.push(id)
            },
            () => {
              isOver = true
            },
          )
        }
      })
      await until(() => answers > 0 || undefined)
      // Every second kill comes after a seal; the others come before one, or while it is made.
      if (kill % 2 === 1) {
        await until(async () => (await gateway.metric('gateway_audit_tree_size')) > sealed || undefined)
      }
      if (kill % 3 === 2) {
        renameSync(gateway.auditFile, stampedPath(gateway.auditFile, Date.now()))
        gateway.process.child.kill('SIGHUP')
      }
      await gateway.end('SIGKILL')
      await Promise.all(clients)
    }
    await start()
    assert.equal(await gateway.end(), 0)
    const { rest } = await check()
    assert.deepEqual(
      rest.map(({ type }) => type),
      ['AUDIT_SEAL'],
    )
    const lines = (await wholeTrail(gateway.auditFile)).map((line) => JSON.parse(line.toString()))
    assert.deepEqual(unpaired(lines), [])
    const recorded = new Set(
      lines
        .filter(({ type, recovered }) => type === 'API_RESPONSE' && recovered !== true)
        .map(({ requestId }) => requestId),
    )
    assert.ok(seen.length > 0)
    assert.deepEqual(
      seen.filter((id) => !recorded.has(id)),
      [],
    )
    assert.deepEqual(
      lines.filter(({ type }) => type === 'AUDIT_SEAL_GAP'),
      [],
    )
  })

  it('do not go on with a missing, bad or other key: the start fails and changes nothing', async () => {
    const checkpoint = join(gateway.dir, 'audit-log', 'checkpoint')
    const [before, trail] = [readFileSync(checkpoint), readFileSync(gateway.auditFile)]
    const key = readFileSync(keyFile())
    rmSync(keyFile())
    await assert.rejects(
      start(),
      /checkpoint needs .*audit-seal-key.pem is missing: put the key back, or move the directory away/,
    )
    assert.equal(existsSync(keyFile()), false)
    makeSealKey(keyFile())
    await assert.rejects(
      start(),
      /checkpoint is of the log countersign.* put the key back, or move the directory away/,
    )
    const file = join(gateway.dir, 'key.pem')
    await assert.rejects(start({ GATEWAY_AUDIT_SEAL_KEY: file }), /seal key .*key.pem cannot be used: ENOENT/)
    writeFileSync(file, 'no key')
    await assert.rejects(start({ GATEWAY_AUDIT_SEAL_KEY: file }), /holds no PEM, but must hold an Ed25519/)
    writeFileSync(keyFile(), key)
    assert.deepEqual([readFileSync(checkpoint), readFileSync(gateway.auditFile)], [before, trail])
    assert.equal(existsSync(`${gateway.auditFile}.tmp`), false)
  })

  it('are made also with a key that others may read, with a warning', async () => {
    chmodSync(keyFile(), 0o644)
    await start()
    const warnings = gateway.process.lines.filter(
      ({ msg }) => msg === 'other users may use the key of the seals',
    )
    assert.deepEqual(
      warnings.map(({ file, cause }) => [file, /mode is 0644/.test(String(cause))]),
      [[keyFile(), true]],
    )
    assert.equal(await gateway.end(), 0)
    chmodSync(keyFile(), 0o600)
  })
})
