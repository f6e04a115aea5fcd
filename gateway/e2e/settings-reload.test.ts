import assert from 'node:assert/strict'
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { Agent, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { createIssuer } from '../testing/test-issuer.ts'
import { startBeats, withinBeats } from './beats.ts'
import { call } from './client.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const SUCCESSFUL = 'gateway_config_last_reload_successful{file="gateway.json"}'
const FAILURES = 'gateway_config_reloads_total{file="gateway.json",result="failure"}'

/** An upstream that responds with its name, and whether Via is there. Responses to `/held` come from the test. */
async function startNamed(name: string) {
  const held: ServerResponse[] = []
  const sockets = new Set<unknown>()
  let keys = 0
  const upstream = await startUpstream((req: IncomingMessage, res) => {
    if (req.url === '/held') held.push(res)
    else if (req.url === '/end')
      res.setHeader('X-Revoke-Session', String(req.headers['x-auth-session'])).end()
    else if (req.url === '/secret') res.end(req.headers['x-gateway-secret'])
    else res.end(`${name} ${req.headers.via === undefined ? 'plain' : 'via'}`)
  })
  upstream.server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  upstream.server.prependListener('request', ({ url }) => {
    if (url === '/.well-known/jwks.json') keys++
  })
  return { ...upstream, held, sockets, keysAsked: () => keys }
}

describe('an edit of gateway.json', () => {
  let one: Awaited<ReturnType<typeof startNamed>>
  let other: Awaited<ReturnType<typeof startNamed>>
  let partner: TestUpstream
  let gateway: TestGateway
  let file: string
  /** The content of gateway.json, for the next edit. */
  let config: Record<string, unknown>

  before(async () => {
    one = await startNamed('one')
    other = await startNamed('other')
    partner = await startUpstream()
    config = {
      upstream: one.url,
      via: true,
      routes: [
        { path: '/open', auth: ['none'] },
        { path: '/held', auth: ['none'] },
        { path: '/mine', auth: ['bearer'] },
        { path: '/end', auth: ['bearer'] },
        { path: '/secret', auth: ['none'] },
      ],
      timeouts: { drainGraceMs: 600_000 },
      // The environment overrides this value, so it is never in force.
      port: 1,
    }
    gateway = await startGateway({ config, env: { GATEWAY_DRAIN_GRACE_MS: undefined } })
    file = join(gateway.dir, 'gateway.json')
  })
  after(async () => {
    // SIGINT skips the grace.
    await gateway.end('SIGINT')
    for (const each of [one, other, partner]) each.close()
  })

  const changes = () => gateway.audit().filter(({ type }) => type === 'CONFIG_CHANGE')
  const text = (edited: object) => JSON.stringify({ ...config, ...edited })
  /** Waits for a log line, which may come later than a response. */
  const logged = (from: number, what: RegExp) =>
    until(() => gateway.process.lines.slice(from).find((line) => what.test(JSON.stringify(line))))

  /** Edits the file and waits until the edit is in force. */
  async function edit(
    edited: object,
    write: (content: string) => void = (content) => writeFileSync(file, content),
  ) {
    const known = changes().length
    config = { ...config, ...edited }
    write(JSON.stringify(config))
    await until(() => (changes().length > known ? true : undefined))
    return changes().at(-1) as Readonly<Record<string, unknown>>
  }

  const routesWith = (path: string) => [...(config.routes as object[]), { path, auth: ['none'] }]
  const status = async (path: string, headers = {}) => (await call(gateway.url + path, { headers })).status

  it('is in force within a second, by a write, a rename or a symlink', async () => {
    const mount = join(gateway.dir, 'mount')
    mkdirSync(mount)
    const forms: [path: string, write: (content: string) => void][] = [
      ['/in-place', (content) => writeFileSync(file, content)],
      [
        '/renamed',
        (content) => {
          writeFileSync(`${file}.new`, content)
          renameSync(`${file}.new`, file)
        },
      ],
      [
        '/swapped',
        (content) => {
          writeFileSync(join(mount, 'gateway.json'), content)
          symlinkSync('mount/gateway.json', `${file}.link`)
          renameSync(`${file}.link`, file)
        },
      ],
    ]
    for (const [path, write] of forms) {
      assert.equal(await status(path), 404)
      const beats = startBeats()
      const change = await edit({ routes: routesWith(path) }, write)
      assert.ok(beats.elapsedMs() < 1000, path)
      assert.equal(await status(path), 200)
      assert.equal(change.file, file)
      assert.deepEqual(change.before, [{ routes: [] }])
      const [{ routes }] = change.after as [{ routes: { path: string }[] }]
      assert.deepEqual(
        routes.map((row) => row.path),
        [path],
      )
    }
  })

  it('that is faulty changes nothing, is logged with file, path and reason, and can be mended', async () => {
    const known = { changes: changes().length, failures: await gateway.metric(FAILURES) }
    const faults: [content: string, told: RegExp][] = [
      [text({}).slice(0, 40), /line 1 column \d+/],
      [text({ rout: [] }), /\$\.rout/],
      [
        text({ routes: [{ path: '/x', auth: ['mtls'] }] }),
        /\$\.routes\[0\]\.auth: accepts nothing but client/,
      ],
    ]
    for (const [content, told] of faults) {
      const from = gateway.process.lines.length
      writeFileSync(file, content)
      await until(async () => ((await gateway.metric(SUCCESSFUL)) === 0 ? true : undefined))
      const line = await logged(from, /last good/)
      assert.equal(line.file, file)
      assert.match(String(line.faults), told)
      assert.ok(String(line.faults).startsWith(`${file}: `))
      assert.equal(await status('/open'), 200)
      writeFileSync(file, text({}))
      await until(async () => ((await gateway.metric(SUCCESSFUL)) === 1 ? true : undefined))
    }
    assert.equal(await gateway.metric(FAILURES), known.failures + 3)
    assert.equal(changes().length, known.changes)
  })

  it('names keys that need a restart and leaves them as they are; all other keys come into force', async () => {
    const from = gateway.process.lines.length
    const change = await edit({
      tracing: { endpoint: 'http://127.0.0.1:9' },
      audit: { file: 'other.ndjson' },
      dataDir: 'elsewhere',
      maxTunnels: 7,
    })
    assert.deepEqual([change.before, change.after], [[{ maxTunnels: 1024 }], [{ maxTunnels: 7 }]])
    const line = await logged(from, /into force after a restart/)
    // Variables still override the audit file and the data directory.
    assert.deepEqual(line.keys, ['tracing'])
    const reloaded = async () => {
      const { body } = await call(`${gateway.adminUrl}/reload`, { method: 'POST' })
      const { result, needsRestart } = JSON.parse(body).gateway
      return [result, needsRestart]
    }
    assert.deepEqual(await reloaded(), ['unchanged', ['tracing']])
    config = { ...config, tracing: undefined, audit: undefined, dataDir: undefined }
    writeFileSync(file, text({}))
    assert.deepEqual(await reloaded(), ['unchanged', []])
  })

  it('comes into force as a whole: each request has upstream and settings of one version', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 4 })
    const seen = new Map<string, number>()
    let going = true
    const knock = async () => {
      while (going) {
        const response = await call(`${gateway.url}/open`, { agent })
        const what = `${response.status} ${response.body}`
        seen.set(what, (seen.get(what) ?? 0) + 1)
      }
    }
    const knocking = Promise.all([knock(), knock(), knock(), knock()])
    for (let round = 0; round < 2; round++) {
      await edit({ upstream: other.url, via: false })
      await until(() => (seen.has('200 other plain') ? true : undefined))
      await edit({ upstream: one.url, via: true })
    }
    going = false
    await knocking
    agent.destroy()
    assert.deepEqual([...seen.keys()].sort(), ['200 one via', '200 other plain'])
  })

  it('lets a request finish at a removed upstream, then closes its connections, but no others', async () => {
    await status('/open')
    await edit({ upstream: [one.url, other.url] })
    await until(async () => {
      await status('/open')
      return other.sockets.size > 0 ? true : undefined
    })
    const held = call(`${gateway.url}/held`)
    const holder = await until(() => [one, other].find((each) => each.held.length > 0))
    const stays = holder === one ? other : one
    // On a busy machine its connections may be idle for longer than Node's five seconds.
    stays.server.keepAliveTimeout = 60_000
    await status('/open')
    const kept = [...stays.sockets]
    assert.ok(kept.length > 0)
    await edit({ upstream: stays.url })
    const sample = `gateway_upstream_healthy{upstream="${holder.url}"}`
    assert.equal(await gateway.metric(sample), 0)
    assert.ok(!(await call(`${gateway.adminUrl}/metrics`)).body.includes(sample))
    await until(() => (holder.sockets.size === 1 ? true : undefined))
    assert.equal((await call(`${gateway.url}/open`)).body.split(' ')[0], stays === one ? 'one' : 'other')
    holder.held.pop()?.end('finished')
    assert.equal((await held).body, 'finished')
    await until(() => (holder.sockets.size === 0 ? true : undefined))
    assert.ok(kept.some((socket) => stays.sockets.has(socket)))
    await edit({ upstream: one.url })
  })

  it('keeps keys, verified tokens and revocations, and can add and remove an issuer', async () => {
    const token = await one.issuer.token({ sid: 'kept' })
    const gone = await one.issuer.token({ sid: 'gone' })
    const bearer = (text: string) => ({ authorization: `Bearer ${text}` })
    assert.equal(await status('/mine', bearer(token)), 200)
    assert.equal(await status('/end', bearer(gone)), 200)
    const asked = one.keysAsked()
    const issuer = await createIssuer('theirs')
    const theirs = { iss: 'https://partner.example', aud: 'us', sid: undefined }
    const foreign = await issuer.token(theirs)
    assert.equal(await status('/mine', bearer(foreign)), 401)
    Object.assign(partner.issuer, { jwks: issuer.jwks })
    const row = { issuer: theirs.iss, jwksUri: `${partner.url}/.well-known/jwks.json`, audience: 'us' }
    await edit({ issuers: [row] })
    assert.equal(await status('/mine', bearer(foreign)), 200)
    assert.equal(await status('/mine', bearer(token)), 200)
    assert.equal(await status('/mine', bearer(gone)), 401)
    await edit({ issuers: [] })
    assert.equal(await status('/mine', bearer(foreign)), 401)
    assert.equal(await status('/mine', bearer(token)), 200)
    assert.equal(one.keysAsked(), asked)
  })

  it('changes how many guesses and requests an address may make, and keeps the counts', async () => {
    const guess = () => status('/mine', { authorization: 'Bearer no.such.token' })
    await edit({ authThrottle: { failures: 30 } })
    for (let i = 0; i < 3; i++) assert.equal(await guess(), 401)
    await edit({ authThrottle: { failures: 3 } })
    await guess()
    assert.equal(await guess(), 429)
    await edit({ authThrottle: { failures: 0 } })
    assert.equal(await guess(), 401)
    await edit({ addressRate: { requests: 1, window: '1h' } })
    assert.equal(await status('/open'), 200)
    assert.equal(await status('/open'), 429)
    await edit({ addressRate: undefined })
    assert.equal(await status('/open'), 200)
  })

  it('can add the first route for machine clients', async () => {
    await edit({ routes: [...(config.routes as object[]), { path: '/hook', auth: ['hmac'] }] })
    assert.equal(await status('/hook'), 401)
  })

  it('follows the files that it names: a new upstream secret is sent as soon as its file changes', async () => {
    const secretFile = join(gateway.dir, 'secret')
    writeFileSync(secretFile, `${'a'.repeat(40)}\n`)
    const change = await edit({ upstreamSecretFile: secretFile })
    assert.deepEqual(change.after, [{ upstreamSecretFile: secretFile, upstreamSecret: '(secret)' }])
    const secretSeen = async () => (await call(`${gateway.url}/secret`)).body
    assert.equal(await secretSeen(), 'a'.repeat(40))
    const known = changes().length
    writeFileSync(secretFile, `${'b'.repeat(40)}\n`)
    await until(() => (changes().length > known ? true : undefined))
    assert.equal(await secretSeen(), 'b'.repeat(40))
    assert.ok(!JSON.stringify(changes()).includes('bbbb'))
    rmSync(secretFile)
    await until(async () => ((await gateway.metric(SUCCESSFUL)) === 0 ? true : undefined))
    assert.equal(await status('/open'), 200)
    writeFileSync(secretFile, `${'b'.repeat(40)}\n`)
    await until(async () => ((await gateway.metric(SUCCESSFUL)) === 1 ? true : undefined))
  })

  it('applies new time-outs to requests on open connections, and a new grace to the drain', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    assert.equal((await call(`${gateway.url}/open`, { agent })).headers['keep-alive'], 'timeout=65')
    await edit({ timeouts: { keepAliveMs: 7000, drainGraceMs: 0 } })
    assert.equal((await call(`${gateway.url}/open`, { agent })).headers['keep-alive'], 'timeout=7')
    agent.destroy()
    assert.equal(await withinBeats(30_000, gateway.end('SIGTERM')), 0)
  })
})
