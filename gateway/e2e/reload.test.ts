import assert from 'node:assert/strict'
import {
  mkdirSync,
  mkdtempSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { Agent } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { AuditRecord } from '../testing/audit-file.ts'
import { writeConfiguration } from '../testing/configuration-files.ts'
import type { LogLine } from '../testing/running-process.ts'
import { startBeats } from './beats.ts'
import { call } from './client.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const CHANGES = 'gateway_config_last_reload_successful{file="limits.json"}'

function table(limit: number): string {
  return JSON.stringify({
    limits: [
      { path: '/stream', limit: 1_000_000 + limit, window: '1h', purpose: 'tests' },
      { path: '/kept', limit, window: '1h', purpose: 'tests' },
    ],
  })
}

/** Sends requests without a pause on a few kept connections, and counts their outcomes. */
function stream(url: string) {
  const agent = new Agent({ keepAlive: true, maxSockets: 4 })
  const outcomes = new Map<string, number>()
  let going = true
  const knock = async () => {
    while (going) {
      const outcome = await call(url, { agent }).then(({ status }) => String(status), String)
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
    }
  }
  const knocking = Promise.all([knock(), knock(), knock(), knock()])
  return {
    /** Ends after a hundred requests. @returns the outcomes, with their numbers */
    async end(): Promise<Readonly<Record<string, number>>> {
      await until(() => (Array.from(outcomes.values()).some((count) => count > 100) ? true : undefined))
      going = false
      await knocking
      agent.destroy()
      return Object.fromEntries(outcomes)
    },
  }
}

describe('an edit of the limit table', () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  /** The path of limits.json: a link to `..data/limits.json`, where `..data` is a link, as Kubernetes mounts it. */
  let file: string
  let mount: string
  let dir: string

  before(async () => {
    upstream = await startUpstream((_req, res) => res.end('whole'))
    dir = mkdtempSync(join(tmpdir(), 'countersign-'))
    writeConfiguration(dir, { config: { upstream: upstream.url, routes: [{ path: '/*', auth: ['none'] }] } })
    mount = join(dir, 'mount')
    file = join(mount, 'limits.json')
    mkdirSync(mount)
    version('v0', table(4))
    symlinkSync('v0', join(mount, '..data'))
    symlinkSync('..data/limits.json', file)
    gateway = await startGateway({ config: {}, dir, env: { GATEWAY_LIMITS: file } })
  })
  after(async () => {
    await gateway.end()
    upstream.close()
    rmSync(dir, { recursive: true })
  })

  /** Writes a version of the file. Returns its name in the mount, as the next function does. */
  function version(name: string, text: string): string {
    mkdirSync(join(mount, name))
    write(`${name}/limits.json`, text)
    return name
  }

  function write(name: string, text: string): string {
    writeFileSync(join(mount, name), text)
    return name
  }

  /** Points a link elsewhere in one step. */
  function swapLink(link: string, target: string): void {
    symlinkSync(target, `${link}.new`)
    renameSync(`${link}.new`, link)
  }

  const kept = () => call(`${gateway.url}/kept`)
  const policy = async () => String((await call(`${gateway.url}/stream`)).headers['ratelimit-policy'])
  const changes = () => gateway.audit().filter(({ type }) => type === 'CONFIG_CHANGE')
  const inForce = (limit: number): Promise<AuditRecord> =>
    until(() => changes().find((change) => rowsOf(change.after)[1]?.limit === limit))
  const rowsOf = (rows: unknown) => rows as Record<string, unknown>[]

  it('is in force within a second, by a write, a rename or a link, and loses no request and no count', async () => {
    const requests = stream(`${gateway.url}/stream`)
    assert.equal((await kept()).headers.ratelimit, '"kept";r=3;t=3600')
    const edits: [limit: number, edit: () => void][] = [
      [5, () => swapLink(join(mount, '..data'), version('v1', table(5)))],
      [6, () => swapLink(file, write('limits.json.6', table(6)))],
      [7, () => writeFileSync(file, table(7))],
      [8, () => renameSync(join(mount, write('limits.json.8', table(8))), file)],
      [9, () => writeFileSync(file, table(9))],
    ]
    for (const [index, [limit, edit]] of edits.entries()) {
      const beats = startBeats()
      edit()
      const change = await inForce(limit)
      assert.ok(beats.elapsedMs() < 1000, `${limit}: ${change.timestamp}`)
      assert.equal(await policy(), `"stream";q=${1_000_000 + limit};w=3600`)
      // Each edit allows one more and each request takes one, so 3 are always left.
      const { status, headers } = await kept()
      assert.deepEqual([status, headers.ratelimit?.slice(0, 10)], [200, '"kept";r=3'], `edit ${index}`)
    }
    const outcomes = await requests.end()
    assert.deepEqual(Object.keys(outcomes), ['200'], JSON.stringify(outcomes))
    assert.equal(readlinkSync(join(mount, '..data')), 'v1')
    assert.ok(statSync(file).isFile())
  })

  it('is in the audit trail with the whole table before and after', () => {
    const [first] = changes()
    assert.deepEqual(Object.keys(first as object), [
      'type',
      'timestamp',
      'file',
      'owner',
      'modified',
      'before',
      'after',
    ])
    assert.equal(first?.file, file)
    const row = (limit: number) => ({
      path: '/kept',
      limit,
      window: '1h',
      purpose: 'tests',
      name: 'kept',
      per: 'caller',
      mode: 'enforce',
      cost: 1,
      onStoreFailure: 'local',
    })
    assert.deepEqual([rowsOf(first?.before)[1], rowsOf(first?.after)[1]], [row(4), row(5)])
    assert.equal(rowsOf(first?.before).length, 2)
    assert.equal(changes().length, 5)
  })

  it('that lowers a limit, and one that raises it again, keep the counts', async () => {
    writeFileSync(file, table(6))
    await inForce(6).then(() => until(async () => ((await policy()).includes('1000006') ? true : undefined)))
    assert.equal((await kept()).status, 429)
    writeFileSync(file, table(10))
    await inForce(10)
    const seen = [await kept(), await kept(), await kept(), await kept(), await kept()]
    assert.deepEqual(
      seen.map(({ status }) => status),
      [200, 200, 200, 200, 429],
    )
  })

  const bad: { title: string; spoil: () => void; path: string; reason: RegExp }[] = [
    {
      title: 'is half written',
      spoil: () => writeFileSync(file, table(11).slice(0, 60)),
      path: 'line 1',
      reason: /./,
    },
    {
      title: 'has a fault in a row',
      spoil: () => writeFileSync(file, table(11).replace('"1h"', '"1 hour"')),
      path: '$.limits[0].window',
      reason: /1 hour/,
    },
    { title: 'is deleted', spoil: () => rmSync(file), path: '$', reason: /ENOENT/ },
    {
      title: 'is a directory',
      spoil: () => swapLink(file, 'v0'),
      path: '$',
      reason: /regular file/,
    },
  ]
  for (const { title, spoil, path, reason } of bad) {
    it(`that ${title} changes nothing, is logged with file, path and reason, and can be mended`, async () => {
      const failures = 'gateway_config_reloads_total{file="limits.json",result="failure"}'
      const before = { failures: await gateway.metric(failures), changes: changes().length }
      const told = gateway.process.lines.length
      assert.equal(await gateway.metric(CHANGES), 1)
      spoil()
      await until(async () => ((await gateway.metric(CHANGES)) === 0 ? true : undefined))
      assert.equal(await gateway.metric(failures), before.failures + 1)
      // The log may come later than a response.
      const logged = (is: (line: LogLine) => boolean) =>
        until(() => gateway.process.lines.slice(told).find(is))
      const line = await logged(({ faults }) => faults !== undefined)
      assert.equal(line.file, file)
      const faults = [line.faults].flat().join('\n')
      assert.ok(faults.startsWith(`${file}: ${path}`), faults)
      assert.match(faults, reason)
      assert.equal(await policy(), '"stream";q=1000010;w=3600')
      assert.equal((await kept()).status, 429)
      assert.equal(changes().length, before.changes)

      rmSync(file, { recursive: true, force: true })
      writeFileSync(file, table(10))
      await until(async () => ((await gateway.metric(CHANGES)) === 1 ? true : undefined))
      await logged(({ msg }) => msg === 'limits are in force')
      assert.equal(changes().length, before.changes)
    })
  }
})

describe('a limit table that is probably wrong', () => {
  const row = (path: string) => ({ path, limit: 5, window: '1m', purpose: 'tests' })

  it('causes a warning at the start and after an edit', async () => {
    const gateway = await startGateway({
      config: { upstream: 'http://127.0.0.1:9', routes: [{ path: '/api/*', auth: ['none'] }] },
      limits: [row('/api/a'), row('/old/b')],
    })
    const warned = (warning: RegExp) =>
      gateway.process.line(({ level, warning: text }) => level === 40 && warning.test(String(text)))
    await warned(/^the limit "b" \(\/old\/b\) has no effect/)
    writeFileSync(gateway.limitsFile, JSON.stringify({ limits: [row('/api/a'), row('/old/c')] }))
    await warned(/^the limit "c" \(\/old\/c\) has no effect/)
    writeFileSync(gateway.limitsFile, '{"limits":[]}')
    await warned(/^the limit table is empty: nothing is limited$/)
    await gateway.end()
    const warnings = gateway.process.lines.filter(({ warning }) => warning !== undefined)
    assert.equal(warnings.length, 3)
  })

  it('is refused if one byte is not UTF-8, and the log names the byte', async () => {
    const gateway = await startGateway({
      config: { upstream: 'http://127.0.0.1:9', routes: [{ path: '/*', auth: ['none'] }] },
      limits: [row('/api/a')],
    })
    const limits = Array.from({ length: 2000 }, (_, index) => row(`/api/${index}`))
    const large = Buffer.from(JSON.stringify({ limits }))
    const torn = Buffer.from(large)
    torn[100_000] = 0xff
    writeFileSync(gateway.limitsFile, torn)
    const line = await gateway.process.line(({ faults }) => faults !== undefined)
    assert.match(String(line.faults), /byte 100000 \(0xFF, in line 1\) is not UTF-8/)
    writeFileSync(gateway.limitsFile, large)
    const good = await gateway.process.line(({ rows }) => rows === 2000)
    assert.equal(good.msg, 'limits are in force')
    await gateway.end()
  })
})
