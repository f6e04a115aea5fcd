import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { freePort } from '../../backend/testing/free-port.ts'
import { prepareBackendDirectory } from '../../backend/testing/prepared-directory.ts'
import { readAudit } from '../testing/audit-file.ts'
import { call } from './client.ts'
import { until } from './running-gateway.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const { TEST_GATEWAY, TEST_BACKEND } = process.env
/** The folder of start and main. In a test run these are bundles, which start with half of the CPU. */
const [PROGRAMS, EXTENSION] =
  TEST_GATEWAY && TEST_BACKEND ? [dirname(TEST_GATEWAY), 'js'] : [join(ROOT, 'gateway'), 'ts']

/** Replaces the backend, whose start costs a second of CPU. It says that it listens, and ends with its parent. */
const BACKEND = `
if (process.argv[1]?.includes('backend/main')) {
  const { createServer } = await import('node:http')
  const port = Number(process.env.BACKEND_PORT)
  createServer((_, res) => res.end('{}')).listen(port, '127.0.0.1', () => process.send('listening'))
  process.on('SIGTERM', () => stop())
  process.on('SIGINT', () => stop())
  process.on('disconnect', () => stop())
  const stop = () => {
    console.error('{"service":"backend","msg":"stopping"}')
    process.exit()
  }
  await new Promise(() => {})
}`
const WITHOUT_BACKEND = {
  NODE_OPTIONS: `--import=data:text/javascript;base64,${Buffer.from(BACKEND).toString('base64')}`,
}

/** The reason of the last AUDIT_STOP, and the type of the last record. */
function endOf(dir: string): [reason: unknown, last: unknown] {
  const records = readAudit(join(dir, 'audit.ndjson'))
  return [records.findLast(({ type }) => type === 'AUDIT_STOP')?.reason, records.at(-1)?.type]
}

describe('npm start', () => {
  const dir = mkdtempSync(join(tmpdir(), 'countersign-'))
  const checkout = mkdtempSync(join(tmpdir(), 'countersign-checkout-'))
  let ports: Record<'backend' | 'gateway' | 'admin', number>
  let both: ChildProcess | undefined
  let log = ''

  before(async () => {
    ports = { backend: await freePort(), gateway: await freePort(), admin: await freePort() }
    await prepareBackendDirectory(join(dir, 'backend'))
    makeCheckout(checkout)
  })
  after(() => {
    both?.kill('SIGKILL')
    rmSync(dir, { recursive: true, force: true })
    rmSync(checkout, { recursive: true, force: true })
  })

  const DIRECTLY = [process.execPath, `gateway/start.${EXTENSION}`] as const
  /** Paths that other users could read, write or enter. */
  const openToOthers = () =>
    readdirSync(dir, { recursive: true, withFileTypes: true })
      .map((entry) => join(entry.parentPath, entry.name))
      // Npm keeps its own files there.
      .filter((path) => !path.startsWith(join(dir, '.npm')))
      .filter((path) => ((statSync(path, { throwIfNoEntry: false })?.mode ?? 0) & 0o077) !== 0)

  /** Starts both in their own process group, as a terminal does. */
  function start(
    env: Record<string, string> = {},
    [program, ...args]: readonly [string, ...string[]] = DIRECTLY,
  ): void {
    log = ''
    // The usual umask of a machine with several users.
    process.umask(0o022)
    both = spawn(program, args, {
      cwd: checkout,
      detached: true,
      stdio: ['ignore', 'ignore', 'pipe'],
      env: {
        PATH: process.env.PATH,
        HOME: dir,
        ...(process.env.NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE }),
        // Without coverage, because these programs run without the tests' loader.
        NODE_V8_COVERAGE: '',
        BACKEND_PORT: String(ports.backend),
        BACKEND_DATA_DIR: join(dir, 'backend'),
        GATEWAY_PORT: String(ports.gateway),
        GATEWAY_ADMIN_PORT: String(ports.admin),
        GATEWAY_AUDIT_FILE: join(dir, 'audit.ndjson'),
        GATEWAY_DATA_DIR: join(dir, 'gateway'),
        ...env,
      },
    })
    both.stderr?.setEncoding('utf8').on('data', (text: string) => {
      log += text
    })
  }

  const ended = async () => (both === undefined ? undefined : (await once(both, 'close'))[0])
  const status = (path: string) =>
    call(`http://127.0.0.1:${ports.gateway}${path}`).then(
      (response) => response.status,
      () => 0,
    )
  const backendUp = () =>
    call(`http://127.0.0.1:${ports.backend}/openapi.json`).then(
      () => true,
      () => false,
    )
  const serving = () => eventually(async () => (await status('/openapi.json')) === 200)
  const gatewayPid = () =>
    Number(readAudit(join(dir, 'audit.ndjson')).findLast(({ type }) => type === 'AUDIT_START')?.pid)
  /** Waits longer than `until`, because the database starts slowly on a busy machine. */
  async function eventually(holds: () => Promise<boolean>): Promise<void> {
    for (let i = 0; i < 5; i++) {
      const held = await until(async () => ((await holds()) ? true : undefined)).catch(() => false)
      if (held) return
    }
    assert.fail(log)
  }

  it('accepts no connection before the backend responds, so that the first response is good', async () => {
    start()
    const seen = new Set<number>()
    await eventually(async () => {
      const got = await status('/openapi.json')
      seen.add(got)
      return got === 200
    })
    assert.deepEqual([...seen], [0, 200])
    assert.deepEqual(openToOthers(), [], 'nothing is for other users, not even while it runs')
  })

  it('connects the two on other ports than the defaults: requests, tokens and metadata', async () => {
    const base = `http://127.0.0.1:${ports.gateway}`
    const body = JSON.stringify({ email: 'alice@example.com', password: 'demo-password' })
    const headers = { 'content-type': 'application/json' }
    const session = await fetch(`${base}/api/login`, { method: 'POST', headers, body })
    const { accessToken } = (await session.json()) as { accessToken: string }
    const authorization = `Bearer ${accessToken}`
    assert.equal((await fetch(`${base}/api/balance`, { headers: { authorization } })).status, 200)
    const metadata = await (await fetch(`${base}/.well-known/oauth-authorization-server`)).json()
    assert.equal((metadata as { issuer: string }).issuer, `http://localhost:${ports.gateway}`)
  })

  it('says in one line why it cannot start, if it may not write', async () => {
    const [running, before] = [both, log]
    start({ GATEWAY_DATA_DIR: '/dev/null/data' })
    assert.equal(await ended(), 1)
    assert.match(log, /^cannot start: a secret cannot be made in \/dev\/null\/data: E\w+: [^\n]*\n$/)
    both = running
    log = before
  })

  it('restarts a killed gateway, which recovers its trail', async () => {
    const killed = gatewayPid()
    process.kill(killed, 'SIGKILL')
    await eventually(async () => gatewayPid() !== killed && (await status('/openapi.json')) === 200)
    assert.match(log, /gateway ended with SIGKILL: it is started again/)
  })

  it('drains the gateway on Ctrl-C, then ends the backend, and exits with 0', async () => {
    process.kill(-Number(both?.pid), 'SIGINT')
    const code = await ended()
    assert.equal(code, 0, log)
    assert.deepEqual(endOf(dir), ['SIGINT', 'AUDIT_SEAL'])
    assert.ok(log.lastIndexOf('"service":"backend"') > log.lastIndexOf('"draining"'))
    assert.ok(log.indexOf('"msg":"stopping"') > log.lastIndexOf('"reason":"SIGINT","msg":"stopped"'), log)
    assert.equal(await backendUp(), false)
    assert.ok(readdirSync(join(dir, 'backend', 'cluster')).length > 10)
    assert.deepEqual(openToOthers(), [])
  })

  const onLinux = { skip: process.platform === 'linux' ? false : 'needs /proc to tell the children apart' }
  it(
    'starts no gateway and exits with 0 if its terminal closes before the backend responds',
    onLinux,
    async () => {
      const started = gatewayPid()
      const hangs =
        'if (process.argv[1].includes("backend")) await new Promise(() => setInterval(() => {}, 1e9))'
      const [program, ...args] = DIRECTLY
      start({}, [program, '--import', `data:text/javascript,${encodeURIComponent(hangs)}`, ...args])
      await until(() => (childrenOf(both?.pid).length === 1 ? true : undefined))
      both?.kill('SIGHUP')
      assert.equal(await ended(), 0, log)
      assert.equal(gatewayPid(), started)
      assert.equal(await backendUp(), false)
    },
  )

  it('leaves neither of the two behind when it is killed with -9', async () => {
    start()
    await serving()
    both?.kill('SIGKILL')
    await eventually(async () => (await status('/openapi.json')) === 0 && !(await backendUp()))
    await until(() => (endOf(dir)[0] === 'parent gone' ? true : undefined))
  })

  /** Process ids of npm, the launcher and start.ts. */
  const chain = () => {
    const [launcher] = childrenOf(both?.pid)
    return [Number(both?.pid), Number(launcher), Number(childrenOf(launcher)[0])] as const
  }
  it(
    'ends as a whole under npm, whichever process above backend and gateway is killed with -9',
    onLinux,
    async () => {
      for (const index of [0, 1, 2]) {
        start(WITHOUT_BACKEND, ['npm', 'start'])
        await serving()
        const closed = ended()
        process.kill(Number(chain()[index]), 'SIGKILL')
        // All processes share one standard error, which closes when the last of them has ended.
        await closed
        assert.equal((await status('/openapi.json')) === 0 && !(await backendUp()), true)
        const [reason] = endOf(dir)
        assert.equal(reason, index === 2 ? 'parent gone' : 'SIGINT')
      }
    },
  )

  it('restarts a killed backend, but starts no second gateway', onLinux, async () => {
    start(WITHOUT_BACKEND, ['npm', 'start'])
    await serving()
    const before = gatewayPid()
    const starter = chain()[2]
    const backendPid = Number(childrenOf(starter).find((child) => child !== before))
    process.kill(backendPid, 'SIGKILL')
    await until(() => (log.includes('backend ended with SIGKILL') ? true : undefined))
    await serving()
    assert.equal(gatewayPid(), before)
    assert.equal(childrenOf(starter).length, 2)
  })

  it('drains when only npm gets SIGTERM, and npm waits and exits with 0', onLinux, async () => {
    const closed = ended()
    both?.kill('SIGTERM')
    assert.equal(await closed, 0, log)
    assert.deepEqual(endOf(dir), ['SIGTERM', 'AUDIT_SEAL'])
    assert.ok(log.indexOf('"msg":"stopping"') > log.lastIndexOf('"reason":"SIGTERM","msg":"stopped"'), log)
  })

  it('has a gateway that ends in good order if its parent dies while it still loads', async () => {
    const file = join(dir, 'alone.ndjson')
    const program = `
      const { spawn } = require('node:child_process')
      spawn(process.execPath, ['gateway/main.${EXTENSION}'], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'], detached: true })
      process.kill(process.pid, 'SIGKILL')`
    const settings = { GATEWAY_PORT: '0', GATEWAY_ADMIN_PORT: '0', GATEWAY_AUDIT_FILE: file }
    start(settings, [process.execPath, '--eval', program])
    await ended()
    const types = readAudit(file).map(({ type, reason }) => [type, reason])
    assert.deepEqual(types, [
      ['AUDIT_START', undefined],
      ['AUDIT_STOP', 'parent gone'],
      ['AUDIT_SEAL', undefined],
    ])
  })

  it('ends both and exits with 1 if the configuration of the gateway is bad', async () => {
    start({ ...WITHOUT_BACKEND, GATEWAY_LOG_LEVEL: 'loud' })
    const code = await ended()
    assert.equal(code, 1)
    assert.match(log, /^environment: GATEWAY_LOG_LEVEL: /m)
    assert.equal(await backendUp(), false)
  })

  it('starts no gateway if the backend cannot start, and exits with its code', async () => {
    const records = readFileSync(join(dir, 'audit.ndjson'), 'utf8')
    start({ BACKEND_PORT: 'three thousand' })
    const code = await ended()
    assert.equal(code, 1)
    assert.match(log, /BACKEND_PORT/)
    assert.equal(readFileSync(join(dir, 'audit.ndjson'), 'utf8'), records)
  })
})

/** Makes a directory with the files that `npm start` needs. */
function makeCheckout(directory: string): void {
  for (const name of ['config', 'launcher']) symlinkSync(join(ROOT, name), join(directory, name))
  symlinkSync(PROGRAMS, join(directory, 'gateway'))
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const start = scripts.start.replace('gateway/start.ts', `gateway/start.${EXTENSION}`)
  writeFileSync(join(directory, 'package.json'), JSON.stringify({ scripts: { start } }))
}

function childrenOf(pid = 0): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
  return [...children.matchAll(/\d+/g)].map(Number)
}
