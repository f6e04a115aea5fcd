import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { connect, type SecureVersion } from 'node:tls'
import { countersign } from '../cli/program.test-support.ts'
import { OcspAuthority } from '../tls/stapling/ocsp-authority.test-support.ts'
import { skipWithout } from './other-programs.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { runTool } from './secure.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const RELOADED = 'gateway_config_last_reload_successful{file="ocsp"}'

describe('an OCSP response in a file', { skip: skipWithout('openssl') }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'stapling-'))
  const authority = new OcspAuthority(folder)
  const at = (name: string) => join(folder, name)
  let upstream: TestUpstream
  let gateway: TestGateway
  let next: Buffer
  before(async () => {
    upstream = await startUpstream((_req, res) => res.end('whole'))
  })
  after(() => {
    gateway?.kill()
    upstream.close()
    rmSync(folder, { recursive: true })
  })

  /** Writes a file by a rename, as a renewal should, so that it is never half. */
  const write = (name: string, content: string | Buffer) => {
    writeFileSync(at(`${name}.new`), content)
    renameSync(at(`${name}.new`), at(name))
    return at(name)
  }
  const environment = (name: string) => {
    const { cert, key } = authority.textsOf('server')
    return {
      GATEWAY_TLS_PORT: '0',
      GATEWAY_TLS_CERT: write(`${name}-cert.pem`, cert),
      GATEWAY_TLS_KEY: write(`${name}-key.pem`, key),
      GATEWAY_TLS_OCSP: at(`${name}.ocsp`),
    }
  }
  const begin = (name: string, env: Record<string, string> = {}) =>
    startGateway({
      config: { upstream: upstream.url, routes: [{ path: '/*', auth: ['none'] }] },
      env: { ...environment(name), ...env },
    })
  /** The OCSP response that a client gets in its handshake. */
  const stapled = async ({ tlsPort }: TestGateway, maxVersion: SecureVersion = 'TLSv1.3') => {
    const ca = authority.textsOf('server').cert
    const options = { host: '127.0.0.1', servername: 'localhost', ca, requestOCSP: true, maxVersion }
    const socket = connect({ ...options, port: tlsPort as number })
    let response: Buffer | undefined
    socket.on('OCSPResponse', (sent: Buffer | null) => {
      response = sent ?? undefined
    })
    await once(socket, 'secureConnect')
    socket.destroy()
    return response
  }
  const isStapled = (gateway: TestGateway, expected: Buffer | undefined) =>
    until(async () => {
      const sent = await stapled(gateway)
      return (expected === undefined ? sent === undefined : sent?.equals(expected)) || undefined
    })

  it('is sent to clients that ask, and accepted by openssl', async () => {
    const good = authority.respond()
    write('asked.ocsp', good)
    gateway = await begin('asked')
    await isStapled(gateway, good)
    for (const version of ['TLSv1.2', 'TLSv1.3'] as const)
      assert.deepEqual(await stapled(gateway, version), good)
    const to = [
      's_client',
      '-connect',
      `127.0.0.1:${gateway.tlsPort}`,
      '-status',
      '-CAfile',
      authority.caFile,
    ]
    const { output } = await runTool('openssl', to)
    assert.match(output, /OCSP Response Status: successful/)
    assert.match(output, /Cert Status: good/)
    next = authority.respond({ minutes: 120 })
    write('asked.ocsp', next)
    await isStapled(gateway, next)
    assert.equal(await gateway.metric(RELOADED), 1)
  })

  it('is sent after a restart', async () => {
    const { restarted, text } = await gateway.restart()
    assert.ok(restarted, text)
    await gateway.process.line(({ msg }) => msg === 'this process ends: a new one serves in its place')
    await isStapled(gateway, next)
  })

  it('may be missing at the start, and is not sent if it says revoked or is for another certificate', async (t) => {
    const gateway = await begin('late')
    t.after(() => gateway.end())
    assert.equal(await stapled(gateway), undefined)
    assert.equal(await gateway.metric(RELOADED), 0)
    const good = authority.respond()
    write('late.ocsp', good)
    await isStapled(gateway, good)
    assert.equal(await gateway.metric(RELOADED), 1)
    write('late.ocsp', authority.respond({ status: 'revoked' }))
    await isStapled(gateway, undefined)
    assert.equal(await gateway.metric(RELOADED), 0)
    const { cause } = await gateway.process.line(({ cause }) => /revoked/.test(String(cause)))
    assert.equal(cause, 'the authority has revoked the certificate')
    // Then a new certificate comes, and after it a response for it.
    const { cert, key } = authority.issue('renewed', 20)
    write('late-cert.pem', cert)
    write('late-key.pem', key)
    await gateway.process.line(({ cause }) => cause === 'it is for another certificate')
    const renewed = authority.respond({ name: 'renewed' })
    write('late.ocsp', renewed)
    await isStapled(gateway, renewed)
  })

  it('is fetched from the responder with GATEWAY_TLS_OCSP_FETCH, and sent', async (t) => {
    const responder = createServer(async (req, res) => {
      const pieces: Buffer[] = []
      for await (const piece of req) pieces.push(piece)
      res.end(authority.respondTo(Buffer.concat(pieces), { name: 'asked' }))
    })
    responder.listen(0, '127.0.0.1')
    await once(responder, 'listening')
    const url = `http://127.0.0.1:${(responder.address() as AddressInfo).port}/`
    const { cert, key } = authority.issue('asked', 30, { more: `authorityInfoAccess = OCSP;URI:${url}` })
    const { GATEWAY_TLS_OCSP: _, ...env } = environment('fetched')
    write('fetched-cert.pem', cert)
    write('fetched-key.pem', key)
    const gateway = await startGateway({
      config: { upstream: upstream.url, routes: [{ path: '/*', auth: ['none'] }] },
      env: { ...env, GATEWAY_TLS_OCSP_FETCH: 'true' },
    })
    t.after(async () => {
      await gateway.end()
      responder.close()
      responder.closeAllConnections()
    })
    await gateway.process.line(({ msg }) => msg === 'the OCSP response is sent to clients')
    const sent = await until(() => stapled(gateway))
    await isStapled(gateway, sent)
  })

  it('is checked by `validate`, which says until when it is sent, or warns why not', async () => {
    const validated = async () => {
      const env = { ...process.env, ...environment('validated') }
      const { status, stdout, stderr } = await countersign(['validate'], env)
      assert.equal(status, 0, stderr)
      return stdout + stderr
    }
    const file = at('validated.ocsp')
    assert.ok(
      (await validated()).includes(`warning: ${file}: is not sent to clients: cannot be read: ENOENT`),
    )
    write('validated.ocsp', authority.respond({ status: 'unknown' }))
    assert.ok((await validated()).includes(`${file}: is not sent to clients: the authority does not know`))
    write('validated.ocsp', authority.respond())
    assert.match(await validated(), /validated\.ocsp: OK, sent until 20/)
  })
})
