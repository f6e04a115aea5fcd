import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { decodeJwt } from 'jose'
import { prepareBackendDirectory } from './testing/prepared-directory.ts'
import { type BackendProcess, startBackendProcess } from './testing/process.ts'

const SECRET = 'between-gateway-and-backend-0123456789'
/** Header of a gateway; a backend without a secret ignores it. */
const OF_GATEWAY = { 'x-gateway-secret': SECRET }
const JSON_TYPE = { ...OF_GATEWAY, 'content-type': 'application/json' }

describe('the backend process', () => {
  let directory: string
  const started: BackendProcess[] = []
  before(async () => {
    directory = mkdtempSync(join(tmpdir(), 'backend-'))
    await prepareBackendDirectory(join(directory, 'data'))
  })
  after(async () => {
    for (const { child } of started) child.kill('SIGKILL')
    await Promise.all(started.map(({ ended }) => ended))
    rmSync(directory, { recursive: true, force: true })
  })

  function start(variables: Record<string, string> = {}, options: { ipc?: boolean } = {}): BackendProcess {
    const backend = startBackendProcess({ BACKEND_DATA_DIR: join(directory, 'data'), ...variables }, options)
    started.push(backend)
    return backend
  }

  async function login(url: string, email: string): Promise<string> {
    const body = JSON.stringify({ email, password: 'demo-password' })
    const response = await fetch(`${url}/api/login`, { method: 'POST', headers: JSON_TYPE, body })
    assert.equal(response.status, 200)
    const { accessToken } = (await response.json()) as { accessToken: string }
    return String(decodeJwt(accessToken).sub)
  }

  const callerHeaders = (userId: string, scope: string) => ({
    ...OF_GATEWAY,
    'x-auth-subject': userId,
    'x-auth-scope': scope,
  })

  async function balanceOf(url: string, userId: string) {
    const response = await fetch(`${url}/api/balance`, { headers: callerHeaders(userId, 'accounts:read') })
    return (await response.json()) as { accountId: string; balance: string }
  }

  let alice: string
  let keys: unknown
  const keysOf = async (url: string) =>
    (await fetch(`${url}/.well-known/jwks.json`, { headers: OF_GATEWAY })).json()

  it('serves demo users, and refuses a second process in its directory', async () => {
    const first = start()
    const url = await first.listening
    alice = await login(url, 'alice@example.com')
    keys = await keysOf(url)
    const bob = await balanceOf(url, await login(url, 'bob@example.com'))
    assert.equal(bob.balance, '1000.00')
    const transfer = await fetch(`${url}/api/transfer`, {
      method: 'POST',
      headers: { ...JSON_TYPE, ...callerHeaders(alice, 'transfers:write') },
      body: JSON.stringify({ toAccountId: bob.accountId, amount: '12.50', currency: 'EUR' }),
    })
    assert.equal(transfer.status, 201)

    const second = start()
    assert.equal(await second.ended, 1)
    assert.match(String(second.log.at(-1)?.msg), /is in use by another backend process/)

    first.child.kill('SIGKILL')
    assert.equal(await first.ended, 'SIGKILL')
  })

  describe('after a kill, with a secret, a quota of 1 MiB and an address that others reach', () => {
    let backend: BackendProcess
    let url: string
    before(async () => {
      const file = join(directory, 'secret')
      writeFileSync(file, `${SECRET}\n`)
      backend = start({
        BACKEND_HOST: '0.0.0.0',
        BACKEND_GATEWAY_SECRET_FILE: file,
        BACKEND_WEBHOOK_CLIENT_MAX_BYTES: '1048576',
      })
      url = `http://127.0.0.1:${new URL(await backend.listening).port}`
    })

    it('has kept users, money and keys', async () => {
      assert.equal(await login(url, 'alice@example.com'), alice, 'the demo users are not made again')
      assert.equal((await balanceOf(url, alice)).balance, '987.50')
      assert.deepEqual(await keysOf(url), keys)
    })

    it('listens to nobody without the secret', async () => {
      const status = async (path: string, headers: Record<string, string> = {}) =>
        (await fetch(`${url}${path}`, { headers })).status
      assert.equal(await status('/healthz'), 200)
      assert.equal(await status('/openapi.json'), 403)
      assert.equal(await status('/openapi.json', OF_GATEWAY), 200)
    })

    it("keeps as many bytes of a client's webhooks as the operator says", async () => {
      const deliver = async (id: string) => {
        const caller = { 'x-auth-client': 'acme', 'x-auth-method': 'hmac', 'webhook-id': id }
        const body = Buffer.alloc(1024 * 1024)
        const headers = { ...OF_GATEWAY, ...caller }
        return (await fetch(`${url}/api/webhooks/billing`, { method: 'POST', headers, body })).status
      }
      assert.deepEqual([await deliver('msg_1'), await deliver('msg_2')], [202, 429])
    })

    it('stops as soon as what is in flight has its response, whatever connections stay open', async () => {
      const { port } = new URL(url)
      const open = async () => {
        const socket = connect({ host: '127.0.0.1', port: Number(port), allowHalfOpen: true })
        await once(socket.setEncoding('utf8'), 'connect')
        return socket
      }
      const silent = await open()
      const unparsed = await open()
      unparsed.write('nonsense\r\n\r\n')
      assert.match(String((await once(unparsed, 'data'))[0]), / 400 /)
      const inFlight = await open()
      const body = JSON.stringify({ email: 'alice@example.com', password: 'demo-password' })
      inFlight.write(
        `POST /api/login HTTP/1.1\r\nHost: backend\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n` +
          `X-Gateway-Secret: ${SECRET}\r\nContent-Length: ${body.length}\r\n\r\n`,
      )
      assert.match(String((await once(inFlight, 'data'))[0]), / 100 /)

      backend.child.kill('SIGTERM')
      while (!backend.log.some(({ msg }) => msg === 'stopping')) await new Promise(setImmediate)
      const [response] = await Promise.all([once(inFlight, 'data'), inFlight.write(body)])
      assert.match(String(response[0]), /^HTTP\/1.1 200 /)
      assert.match(String(response[0]), /\r\nconnection: close\r\n/i)
      assert.equal(await backend.ended, 0)
      assert.equal(backend.log.at(-1)?.msg, 'stopped')
      assert.doesNotMatch(JSON.stringify(backend.log), new RegExp(SECRET))
      for (const socket of [silent, unparsed, inFlight]) socket.destroy()
    })
  })

  it('throws away a cluster that a killed process had not finished making', async () => {
    const half = join(directory, 'half')
    mkdirSync(join(half, 'cluster'), { recursive: true })
    writeFileSync(join(half, 'cluster', 'PG_VERSION'), '18\n')
    writeFileSync(join(half, 'cluster.unfinished'), '')
    const backend = start({ BACKEND_DATA_DIR: half }, { ipc: true })
    await login(await backend.listening, 'operator@example.com')
    assert.equal(existsSync(join(half, 'cluster.unfinished')), false)

    backend.child.disconnect()
    assert.equal(await backend.ended, 0, 'it stops when its parent goes away')
  })

  it('stops also when its parent went away before it listened', async () => {
    const backend = start({}, { ipc: true })
    backend.child.disconnect()
    assert.equal(await backend.ended, 0)
    assert.equal(backend.log.at(-1)?.msg, 'stopped')
  })

  it('tells every fault of its environment and does not start', async () => {
    const backend = start({
      BACKEND_PORT: 'x',
      PUBLIC_URL: 'x',
      NODE_ENV: 'production',
      BACKEND_DEMO: 'true',
    })
    assert.equal(await backend.ended, 1)
    assert.equal(backend.log.length, 3)
    assert.equal(existsSync(join(directory, 'x')), false)
  })

  it('needs a secret to listen where others reach it', async () => {
    const open = start({ BACKEND_HOST: '0.0.0.0' })
    assert.equal(await open.ended, 1)
    assert.match(String(open.log[0]?.msg), /BACKEND_HOST is "0.0.0.0".*BACKEND_GATEWAY_SECRET_FILE/)

    const file = join(directory, 'short')
    writeFileSync(file, 'too-short')
    const refused = start({ BACKEND_HOST: '0.0.0.0', BACKEND_GATEWAY_SECRET_FILE: file })
    assert.equal(await refused.ended, 1)
    assert.match(String(refused.log[0]?.msg), /must hold one line of 32 to 256/)
    assert.doesNotMatch(JSON.stringify(refused.log), /too-short/)
  })

  it('says in one line that the port is taken', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    const { port } = server.address() as AddressInfo
    const backend = start({ BACKEND_PORT: String(port) })
    assert.equal(await backend.ended, 1)
    server.close()
    assert.match(String(backend.log.at(-1)?.msg), /another program already listens there.*EADDRINUSE/)
  })
})
