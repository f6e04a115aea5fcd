import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, describe, it, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { temporaryDirectory } from '../storage/temporary-directory.test-support.ts'
import { call } from './client.ts'
import type { Loaded } from './loaded-probe.ts'
import { startGateway } from './running-gateway.ts'

/** Most files of packages. Each takes about a quarter of a millisecond. */
const MOST_FILES = 240
/** Most files of undici that may be loaded. It has 110. */
const MOST_OF_UNDICI = 30
const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** The client inside Node, of `fetch` and `WebSocket`. */
const BUILT_IN_UNDICI = 'NativeModule internal/deps/undici/undici'

/**
 * From spawn to listening, less than half a second should pass. The time depends on the machine and its load, so these
 * tests look at the loaded files instead.
 */
describe('until it listens', () => {
  const dir = temporaryDirectory({ after })

  it('a gateway loads only its own HTTP client, though it will fetch keys', async () => {
    const { files, builtins } = await start('https://127.0.0.1:9')
    assert.deepEqual(filesOf('undici', files), [])
    assert.equal(builtins.includes(BUILT_IN_UNDICI), false)
    // The gateway checks its files without ajv.
    assert.deepEqual(filesOf('ajv', files), [])
    // Signatures are verified by Node itself.
    assert.deepEqual([...filesOf('jose', files), ...filesOf('jsonwebtoken', files)], [])
    const packaged = files.filter((file) => file.includes('/node_modules/'))
    assert.ok(packaged.length <= MOST_FILES, `${packaged.length} files of packages, of at most ${MOST_FILES}`)
  })

  /** Starts the gateway in plain Node, because the tests' loader has its own modules. */
  async function start(upstream: string): Promise<Loaded> {
    const routes = [{ path: '/api/*', auth: ['bearer'] }]
    writeFileSync(join(dir, 'gateway.json'), JSON.stringify({ routes }))
    writeFileSync(join(dir, 'limits.json'), '{"limits":[]}')
    const loaded = join(dir, 'loaded.json')
    const probe = fileURLToPath(new URL('loaded-probe.ts', import.meta.url))
    const gateway = spawn(process.execPath, ['--import', probe, 'gateway/main.ts'], {
      cwd: ROOT,
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      env: {
        // Without coverage, because the gateway runs without the tests' loader.
        NODE_V8_COVERAGE: '',
        LOADED_FILE: loaded,
        GATEWAY_CONFIG: join(dir, 'gateway.json'),
        GATEWAY_LIMITS: join(dir, 'limits.json'),
        GATEWAY_AUDIT_FILE: join(dir, 'audit.ndjson'),
        GATEWAY_DATA_DIR: join(dir, 'data'),
        GATEWAY_PORT: '0',
        GATEWAY_ADMIN_PORT: '0',
        GATEWAY_UPSTREAM: upstream,
        GATEWAY_LOG_LEVEL: 'error',
      },
    })
    try {
      // The gateway sends a message when it listens.
      await Promise.race([once(gateway, 'message'), once(gateway, 'exit')])
      return JSON.parse(readFileSync(loaded, 'utf8')) as Loaded
    } finally {
      gateway.kill('SIGKILL')
      if (gateway.exitCode === null && gateway.signalCode === null) await once(gateway, 'exit')
      rmSync(loaded, { force: true })
    }
  }
})

describe('at its end', () => {
  it('a gateway that sent no request of its own has loaded no undici', async (t) => {
    assert.deepEqual(await undiciOf(t, { routes: [{ path: '/', auth: ['none'] }] }), [])
  })

  it('a gateway that fetched keys has loaded a part of undici', async (t) => {
    const publisher = createServer((_req, res) => res.end('{"keys":[]}')).listen(0, '127.0.0.1')
    await once(publisher, 'listening')
    t.after(() => publisher.close())
    const jwksUri = `http://127.0.0.1:${(publisher.address() as AddressInfo).port}/`
    const asked = once(publisher, 'request')
    const loaded = await undiciOf(t, { jwksUri, routes: [{ path: '/', auth: ['bearer'] }] }, asked)
    assert.ok(loaded.includes('lib/dispatcher/client.js'), loaded.join())
    assert.ok(!loaded.includes('index.js') && loaded.length <= MOST_OF_UNDICI, loaded.join())
  })

  /** The files of undici that a gateway has loaded after its first response, and after `until`. */
  async function undiciOf(t: TestContext, config: object, until?: Promise<unknown>): Promise<string[]> {
    // A URL, because a path may have a space.
    const probe = new URL('loaded-probe.ts', import.meta.url).href
    const loaded = join(temporaryDirectory(t), 'loaded.json')
    const gateway = await startGateway({
      config: { upstream: 'http://127.0.0.1:9', ...config },
      env: { NODE_OPTIONS: `--import=${probe}`, NODE_V8_COVERAGE: '', LOADED_FILE: loaded },
    })
    try {
      await call(gateway.url)
      await until
      assert.equal(await gateway.end(), 0)
      return filesOf('undici', (JSON.parse(readFileSync(loaded, 'utf8')) as Loaded).files)
    } finally {
      gateway.kill()
    }
  }
})

describe('in the small profile', { skip: process.platform !== 'linux' && 'needs Linux' }, () => {
  it('a gateway has a smaller young generation, under the same process id, and says so', async () => {
    const config = { routes: [{ path: '/', auth: ['none'] }], upstream: 'http://127.0.0.1:9' }
    const gateway = await startGateway({ config, env: { GATEWAY_PROFILE: 'small' } })
    try {
      const command = readFileSync(`/proc/${gateway.process.child.pid}/cmdline`, 'utf8').split('\0')
      assert.ok(command.includes('--max-semi-space-size=4'), command.join(' '))
      const { body } = await call(`${gateway.adminUrl}/config`)
      assert.match(body, /"memoryProfile":\s?"small"/)
    } finally {
      assert.equal(await gateway.end(), 0)
    }
  })
})

/** The files of one package, by their paths in it. */
function filesOf(name: string, files: readonly string[]): string[] {
  const folder = `/node_modules/${name}/`
  return files.flatMap((file) => {
    const at = file.lastIndexOf(folder)
    return at === -1 ? [] : [file.slice(at + folder.length)]
  })
}
