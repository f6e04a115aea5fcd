import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { openSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { freePort } from '../../backend/testing/free-port.ts'
import { temporaryDirectory } from '../storage/temporary-directory.test-support.ts'
import { readAudit } from '../testing/audit-file.ts'
import type { RunningProcess } from '../testing/running-process.ts'
import { run } from './child-process.ts'
import { call, sendBytes, statusOf } from './client.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

describe('a gateway that cannot serve', () => {
  const dir = temporaryDirectory({ after })
  const config = join(dir, 'gateway.json')
  const limits = join(dir, 'limits.json')

  const attempt = (env: Record<string, string> = {}): RunningProcess =>
    run('gateway/main.ts', {
      GATEWAY_CONFIG: config,
      GATEWAY_LIMITS: limits,
      GATEWAY_AUDIT_FILE: join(dir, 'audit.ndjson'),
      GATEWAY_DATA_DIR: join(dir, 'data'),
      GATEWAY_PORT: '0',
      GATEWAY_ADMIN_PORT: '0',
      GATEWAY_AUDIT_SEALS: 'off',
      ...env,
    })

  it('names every fault of environment, file and limit table at once, and exits with 1', async () => {
    writeFileSync(config, '{"routes":[{"path":"api","auth":["none"]},{"path":"/b","auth":["password"]}]}')
    writeFileSync(limits, '{"limits":[{"path":"/a","limit":0,"window":"1y","purpose":"x"}]}')
    const gateway = attempt({ GATEWAY_PORT: 'eighty', GATEWAY_LOG_LEVEL: 'loud', GATEWAY_UPSTRAEM: 'x' })
    assert.equal(await gateway.ended, 1)
    const lines = gateway.plain().split('\n')
    for (const start of [
      'environment: GATEWAY_PORT: ',
      'environment: GATEWAY_LOG_LEVEL: ',
      'environment: GATEWAY_UPSTRAEM: ',
      `${config}: $.routes[0].path: `,
      `${config}: $.routes[1].auth[0]: `,
      `${limits}: $.limits[0].limit: `,
      `${limits}: $.limits[0].window: `,
    ]) {
      assert.equal(lines.filter((line) => line.startsWith(start)).length, 1, `${start}\n${gateway.plain()}`)
    }
    assert.equal(gateway.lines.length, 0)
  })

  it('says in one line that its port is taken, ends the trail it began, and exits with 1', async (t) => {
    writeFileSync(config, '{"routes":[{"path":"/*","auth":["none"]}]}')
    // An empty table would cause a warning.
    writeFileSync(limits, '{"limits":[{"path":"/*","limit":9,"window":"1m","purpose":"Any"}]}')
    const taken = createServer().listen(0, '127.0.0.1')
    t.after(() => taken.close())
    await once(taken, 'listening')
    const { port } = taken.address() as { port: number }
    for (const name of ['GATEWAY_PORT', 'GATEWAY_ADMIN_PORT']) {
      const gateway = attempt({ [name]: String(port) })
      assert.equal(await gateway.ended, 1)
      assert.equal(gateway.plain(), '')
      assert.equal(gateway.lines.length, 1, JSON.stringify(gateway.lines))
      const [line] = gateway.lines
      assert.deepEqual([line?.msg, line?.port, line?.host], ['cannot listen', port, '127.0.0.1'])
      assert.match(String(line?.cause), /EADDRINUSE/)
      const last = readAudit(join(dir, 'audit.ndjson')).at(-1)
      assert.deepEqual([last?.type, last?.reason], ['AUDIT_STOP', 'cannot listen'])
    }
  })

  it('says that its audit file or data directory is in use or unusable, and exits with 1', async () => {
    writeFileSync(join(dir, 'no-directory'), '')
    const first = attempt()
    await first.line(({ msg }) => msg === 'listening')
    const cases: [env: Record<string, string>, cause: RegExp][] = [
      [{ GATEWAY_DATA_DIR: join(dir, 'other') }, /audit\.ndjson is being written by another process/],
      [{ GATEWAY_AUDIT_FILE: join(dir, 'other.ndjson') }, /data\/limits is in use by another gateway/],
      [
        { GATEWAY_AUDIT_FILE: join(dir, 'no-directory/audit.ndjson'), GATEWAY_LOG_FORMAT: 'ecs' },
        /no-directory\/audit\.ndjson cannot be/,
      ],
    ]
    for (const [env, cause] of cases) {
      const second = attempt(env)
      assert.equal(await second.ended, 1)
      assert.equal(second.plain(), '')
      assert.equal(second.lines.length, 1, JSON.stringify(second.lines))
      const [line] = second.lines
      assert.match(String(line?.[env.GATEWAY_LOG_FORMAT ? 'error.message' : 'cause']), cause)
    }
    assert.equal(await first.end('SIGINT'), 0)
  })
})

describe('a gateway that is told to stop', () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  const held: ServerResponse[] = []

  before(async () => {
    upstream = await startUpstream((req, res) => {
      if (req.url === '/held') held.push(res)
      else if (req.url === '/begun') res.write('begun', () => held.push(res))
      else res.end('whole')
    })
  })
  after(() => {
    gateway.process.child.kill('SIGKILL')
    upstream.close()
  })

  const start = async (drainMs = 5000) => {
    held.length = 0
    gateway = await startGateway({
      config: { upstream: upstream.url, timeouts: { drainMs }, routes: [{ path: '/*', auth: ['none'] }] },
    })
  }
  const holding = (count: number) => until(() => (held.length === count ? true : undefined))
  const lastRecord = () => gateway.audit().at(-1)

  it('finishes what it admitted, refuses other requests, is not ready meanwhile, and exits with 0', async () => {
    await start()
    const idle = sendBytes(gateway.port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    const admitted = call(`${gateway.url}/held`)
    const reused = sendBytes(
      gateway.port,
      'GET /held HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n',
    )
    await holding(2)
    gateway.process.child.kill('SIGTERM')
    await gateway.process.line(({ msg }) => msg === 'draining')
    const ready = await call(`${gateway.adminUrl}/readyz`)
    assert.deepEqual([ready.status, ready.body], [503, 'draining\n'])
    assert.equal((await call(`${gateway.adminUrl}/healthz`)).status, 200)
    await assert.rejects(call(gateway.url), /ECONNREFUSED/)
    assert.equal(statusOf(await idle), 200)
    for (const res of held) res.end('whole')
    assert.equal((await admitted).status, 200)
    assert.equal((await admitted).body, 'whole')
    const [first, second] = (await reused).split(/(?<=whole\r\n0\r\n\r\n|whole)(?=HTTP)/)
    assert.equal(statusOf(first as string), 200)
    // The request behind an admitted one on its connection is refused, or never read.
    if (second !== undefined) assert.equal(statusOf(second), 503)
    assert.equal(await gateway.process.ended, 0)
    assert.deepEqual([lastRecord()?.type, lastRecord()?.reason], ['AUDIT_STOP', 'SIGTERM'])
    assert.equal(lastRecord()?.open, 0)
  })

  it('refuses requests that have no response at the deadline, and breaks off responses that have begun', async () => {
    await start(300)
    const unanswered = call(`${gateway.url}/held`)
    const begun = fetch(`${gateway.url}/begun`)
    await holding(2)
    gateway.process.child.kill('SIGTERM')
    const { status, headers, json } = await unanswered
    assert.deepEqual([status, json().code], [503, 'draining'])
    assert.equal(headers['x-frame-options'], 'DENY')
    const broken = await begun
    assert.equal(broken.status, 200)
    await assert.rejects(broken.text())
    assert.equal(await gateway.process.ended, 0)
    const types = gateway.audit().map(({ type }) => type)
    assert.equal(types.filter((type) => type === 'API_RESPONSE').length, 2)
    assert.equal(lastRecord()?.type, 'AUDIT_STOP')
  })

  it('ignores a second signal within a second, and ends its drain at a later one', async () => {
    // Longer than this test can take.
    await start(600_000)
    const unanswered = call(`${gateway.url}/held`)
    await holding(1)
    const signalledAt = performance.now()
    gateway.process.child.kill('SIGINT')
    gateway.process.child.kill('SIGINT')
    await gateway.process.line(({ msg }) => msg === 'draining')
    const answered = await until(async () => {
      gateway.process.child.kill('SIGINT')
      return Promise.race([unanswered, undefined])
    })
    assert.equal(answered.status, 503)
    assert.ok(performance.now() - signalledAt >= 1000)
    assert.equal(await gateway.process.ended, 0)
    assert.deepEqual([lastRecord()?.type, lastRecord()?.reason], ['AUDIT_STOP', 'SIGINT'])
  })

  it('before it listens stops as soon as it listens, and ends its trail', async () => {
    // The previous gateway has ended. This one uses its files.
    const records = gateway.audit().length
    const early = run('gateway/main.ts', environment(gateway))
    await until(() => (gateway.audit().length > records ? true : undefined))
    assert.equal(await early.end('SIGTERM'), 0)
    assert.deepEqual([lastRecord()?.type, lastRecord()?.reason], ['AUDIT_STOP', 'SIGTERM'])
  })

  const full = { skip: process.platform === 'linux' ? false : 'needs /dev/full' }
  it('goes on serving when nobody reads its log, or the disk of its log is full', full, async (t) => {
    await start()
    gateway.process.child.stderr?.destroy()
    await editBadly(gateway.limitsFile, gateway.adminUrl)
    assert.equal((await call(gateway.url)).status, 200)
    assert.equal(await gateway.end(), 0)

    const ports = { GATEWAY_PORT: String(await freePort()), GATEWAY_ADMIN_PORT: String(await freePort()) }
    const adminUrl = `http://127.0.0.1:${ports.GATEWAY_ADMIN_PORT}`
    const logless = spawn(process.execPath, [process.env.TEST_GATEWAY || 'gateway/main.ts'], {
      cwd: fileURLToPath(new URL('../..', import.meta.url)),
      env: { ...environment(gateway), ...ports, NODE_V8_COVERAGE: '' },
      stdio: ['ignore', 'ignore', openSync('/dev/full', 'w')],
    })
    t.after(() => logless.kill('SIGKILL'))
    await until(() => call(`${adminUrl}/readyz`).catch(() => undefined))
    await editBadly(gateway.limitsFile, adminUrl)
    assert.equal((await call(`http://127.0.0.1:${ports.GATEWAY_PORT}/`)).status, 200)
    logless.kill('SIGTERM')
    assert.deepEqual(await once(logless, 'exit'), [0, null])
  })
})

/** The environment with which another gateway uses this gateway's files. */
function environment({ dir, limitsFile, auditFile }: TestGateway): Record<string, string> {
  return {
    GATEWAY_CONFIG: join(dir, 'gateway.json'),
    GATEWAY_LIMITS: limitsFile,
    GATEWAY_AUDIT_FILE: auditFile,
    GATEWAY_DATA_DIR: join(dir, 'data'),
    GATEWAY_PORT: '0',
    GATEWAY_ADMIN_PORT: '0',
    GATEWAY_AUDIT_SEALS: 'off',
  }
}

/** Makes the gateway write to its log by bad and good edits. */
async function editBadly(limitsFile: string, adminUrl: string): Promise<void> {
  const sample = 'gateway_config_last_reload_successful{file="limits.json"}'
  for (const [text, good] of [
    ['{', 0],
    ['{"limits":[]}', 1],
    ['{', 0],
    ['{"limits":[]}', 1],
  ] as const) {
    writeFileSync(limitsFile, text)
    await until(async () => {
      const { body } = await call(`${adminUrl}/metrics`)
      return body.includes(`\n${sample} ${good}\n`) ? true : undefined
    })
  }
}
