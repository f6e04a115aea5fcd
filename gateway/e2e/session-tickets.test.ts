import assert from 'node:assert/strict'
import { once } from 'node:events'
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { connect, type SecureVersion } from 'node:tls'
import { run } from './child-process.ts'
import { skipWithout } from './other-programs.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { makeTlsSetup, runTool, secureOptions, type TlsSetup } from './secure.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

/** So many connections of each version try to resume, one after the other. */
const CONNECTIONS = 4
const VERSIONS = ['TLSv1.2', 'TLSv1.3'] as const

describe('a TLS session', () => {
  let tls: TlsSetup
  let upstream: TestUpstream
  let alone: TestGateway
  let other: TestGateway
  before(async () => {
    tls = await makeTlsSetup()
    upstream = await startUpstream((_req, res) => res.end('whole'))
    alone = await begin()
    other = await begin({ GATEWAY_TLS_TICKET_KEY: secretFile('other') })
  })
  after(async () => {
    alone.kill()
    await other.end()
    upstream.close()
  })

  /** Starts a gateway that asks no client for a certificate. */
  const begin = (env: Record<string, string> = {}) => {
    const { GATEWAY_TLS_CLIENT_CA: _, GATEWAY_TLS_CLIENT_CRL: __, ...plain } = tls.env
    return startGateway({
      config: { upstream: upstream.url, routes: [{ path: '/*', auth: ['none'] }] },
      env: { ...plain, ...env },
    })
  }
  const secretFile = (name: string) => {
    const file = tls.write(name, `a-secret-of-more-than-32-characters-${name}\n`)
    chmodSync(file, 0o600)
    return file
  }

  /** Sends one request on a new connection. @returns whether it resumed the session, and the session that it got */
  async function ask({ tlsPort }: TestGateway, maxVersion: SecureVersion, session?: Buffer) {
    let offered: Buffer | undefined
    const options = { ...secureOptions(tls.ca), port: tlsPort as number, maxVersion }
    const socket = connect(session === undefined ? options : { ...options, session })
    socket.on('session', (each: Buffer) => {
      offered = each
    })
    await once(socket, 'secureConnect')
    const resumed = socket.isSessionReused()
    socket.end('GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
    await once(socket.resume(), 'close')
    return { resumed, session: offered }
  }
  const begun = async (gateway: TestGateway, version: SecureVersion) => {
    const { session } = await ask(gateway, version)
    assert.ok(session)
    return session
  }
  const timesResumed = async (gateway: TestGateway, version: SecureVersion, session: Buffer) => {
    let times = 0
    for (let n = 0; n < CONNECTIONS; n++) if ((await ask(gateway, version, session)).resumed) times++
    return times
  }

  it('is resumed by another gateway with the same secret, but not by one with another secret or without one', async (t) => {
    const file = secretFile('shared')
    const one = await begin({ GATEWAY_TLS_TICKET_KEY: file })
    const same = await begin({ GATEWAY_TLS_TICKET_KEY: file })
    t.after(() => Promise.all([one.end(), same.end()]))
    for (const version of VERSIONS) {
      const session = await begun(one, version)
      assert.equal((await ask(same, version, session)).resumed, true)
      for (const none of [other, alone]) assert.equal((await ask(none, version, session)).resumed, false)
    }
  })

  it('ends when its secret is replaced', async () => {
    const session = await begun(other, 'TLSv1.3')
    assert.equal((await ask(other, 'TLSv1.3', session)).resumed, true)
    tls.write('other', 'another-secret-of-more-than-32-characters\n')
    const changed = () => other.audit().find(({ type }) => type === 'CONFIG_CHANGE')
    const record = JSON.stringify(await until(changed))
    assert.match(record, /"ticketKeyId":"[0-9a-f]{16}"/)
    assert.doesNotMatch(record, /more-than-32/)
    await until(async () => ((await timesResumed(other, 'TLSv1.3', session)) === 0 ? true : undefined))
    const next = await begun(other, 'TLSv1.3')
    assert.equal((await ask(other, 'TLSv1.3', next)).resumed, true)
  })

  it('takes no data before the end of its handshake (0-RTT)', { skip: skipWithout('openssl') }, async () => {
    const to = ['s_client', '-connect', `127.0.0.1:${alone.tlsPort}`, '-tls1_3', '-ign_eof']
    const file = join(tls.dir, 'session.pem')
    const ask = 'GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
    const { output } = await runTool('openssl', [...to, '-sess_out', file], ask)
    assert.match(output, /Max Early Data: 0/)
    const again = await runTool('openssl', [...to, '-sess_in', file], ask)
    assert.match(again.output, /\nReused, TLSv1\.3/)
    assert.match(again.output, /Early data was not sent/)
  })

  it('is resumed after a restart', async () => {
    const sessions = await Promise.all(VERSIONS.map((version) => begun(alone, version)))
    for (const [at, version] of VERSIONS.entries()) {
      assert.equal(await timesResumed(alone, version, sessions[at] as Buffer), CONNECTIONS, version)
    }
    const { restarted, text } = await alone.restart()
    assert.ok(restarted, text)
    await alone.process.line(({ msg }) => msg === 'this process ends: a new one serves in its place')
    for (const [at, version] of VERSIONS.entries()) {
      assert.equal(await timesResumed(alone, version, sessions[at] as Buffer), CONNECTIONS, version)
    }
  })

  it('does not let the gateway start with a secret file that others can read', async () => {
    const file = secretFile('open')
    chmodSync(file, 0o644)
    const { GATEWAY_TLS_CLIENT_CA: _, GATEWAY_TLS_CLIENT_CRL: __, ...plain } = tls.env
    const child = run('gateway/main.ts', { ...plain, GATEWAY_TLS_TICKET_KEY: file })
    assert.equal(await child.ended, 1)
    assert.match(child.plain() + JSON.stringify(child.lines), /open: \$: cannot be read: its mode is 0644/)
  })
})
