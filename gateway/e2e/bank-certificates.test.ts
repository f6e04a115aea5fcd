import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { Agent } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, describe, it } from 'node:test'
import {
  psd2Statement,
  qcStatements,
  qwacExtensions,
  rolesOf,
} from '../tls/clients/psd2-statement.test-support.ts'
import {
  type Authority,
  CLIENT_AUTH,
  type Issued,
  makeAuthority,
  makeCertificate,
} from '../tls/demo/throw-away-ca.ts'
import { OcspAuthority } from '../tls/stapling/ocsp-authority.test-support.ts'
import { skipWithout } from './other-programs.ts'
import { startGateway, type TestGateway } from './running-gateway.ts'
import { makeTlsSetup, secureCall, type TlsSetup } from './secure.ts'
import { type SeenRequest, startUpstream, type TestUpstream } from './test-upstream.ts'

const SUBJECT = 'CN=tpp.example,2.5.4.97=PSDDE-BAFIN-123456,O=TPP,L=Berlin,C=DE'

describe('a bank that is known by its organizationIdentifier', () => {
  let upstream: TestUpstream
  let tls: TlsSetup
  let other: Authority
  let gateway: TestGateway

  const issuer = 'CN=Root, O=Test'
  const clients = (psd2Roles = true) => [
    {
      id: 'tpp',
      scopes: ['payments'],
      mtls: { organizationIdentifier: 'PSDDE-BAFIN-123456', issuer, psd2Roles },
    },
    { id: 'plain', mtls: { organizationIdentifier: 'PSDDE-BAFIN-7', issuer } },
  ]
  before(async () => {
    upstream = await startUpstream()
    tls = await makeTlsSetup()
    other = await makeAuthority({ subject: 'CN=Other,O=Test' })
    const { GATEWAY_TLS_CLIENT_CRL: _, ...env } = tls.env
    tls.write('ca.pem', tls.ca.certPem + other.certPem)
    gateway = await startGateway({
      config: {
        upstream: upstream.url,
        routes: [
          { path: '/any', auth: ['mtls'] },
          { path: '/accounts', auth: ['mtls'], scopes: ['psd2:PSP_AI'] },
          { path: '/payments', auth: ['mtls'], scopes: ['psd2:PSP_PI', 'payments'] },
        ],
      },
      clients: clients(),
      env,
    })
  })
  after(async () => {
    assert.deepEqual(
      gateway.process.lines.filter(({ msg }) => msg === 'a stage failed'),
      [],
    )
    assert.equal(await gateway.end(), 0)
    upstream.close()
  })

  const issue = (extensions: Readonly<Record<string, Buffer>>, subject = SUBJECT, issuer = tls.ca) =>
    makeCertificate({ subject, issuer, extensions, extendedKeyUsages: [CLIENT_AUTH] })
  const ask = (path: string, certificate: Awaited<ReturnType<typeof issue>>, agent = new Agent()) =>
    secureCall({ port: gateway.tlsPort, path, ca: tls.ca, certificate, agent })

  it('may do only what the roles of its certificate permit, whichever way they are encoded', async () => {
    for (const form of ['nested', 'flat'] as const) {
      const certificate = await issue(qwacExtensions(['PSP_AI'], form))
      const answer = await ask('/accounts', certificate)
      assert.equal(answer.status, 200, answer.body)
      const { headers } = answer.json<SeenRequest>()
      assert.equal(headers['x-auth-client'], 'tpp')
      assert.equal(headers['x-auth-scope'], 'payments psd2:PSP_AI')
      const refused = await ask('/payments', certificate)
      assert.deepEqual([refused.status, refused.json().code], [403, 'insufficient_scope'])
    }
    assert.equal((await ask('/payments', await issue(qwacExtensions(['PSP_AI', 'PSP_PI'])))).status, 200)
  })

  it('stays known after a renewal with another locality; a bank with a similar name is another', async () => {
    const moved = SUBJECT.replace('L=Berlin', 'L=Wien').replace('tpp.example', 'api.tpp.example')
    assert.equal((await ask('/accounts', await issue(qwacExtensions(['PSP_AI']), moved))).status, 200)
    for (const subject of [SUBJECT.replace('123456', '12345'), 'CN=PSDDE-BAFIN-123456,O=PSDDE-BAFIN-123456'])
      assert.equal((await ask('/accounts', await issue(qwacExtensions(['PSP_AI']), subject))).status, 401)
  })

  it('is not known by a certificate that another authority issued with its name', async () => {
    const answer = await ask('/any', await issue(qwacExtensions(['PSP_AI']), SUBJECT, other))
    assert.deepEqual([answer.status, answer.json().code], [401, 'invalid_certificate'])
  })

  it('is refused without a good PSD2 statement, and only the log says why', async () => {
    const bad = psd2Statement(rolesOf('nested', [[2, 'PSP_AI']]))
    const cases = [
      [{}, /^it has no PSD2 statement: subject "CN=tpp\.example,/],
      [{ '1.3.6.1.5.5.7.1.3': qcStatements(bad) }, /^its statements are not .* PSP_PI has another name: /],
    ] as const
    for (const [extensions, cause] of cases) {
      const answer = await ask('/any', await issue(extensions))
      assert.deepEqual([answer.status, answer.json().code], [401, 'invalid_certificate'])
      assert.equal(answer.json().detail, 'The client certificate is not accepted.')
      const id = answer.headers['x-request-id']
      const line = await gateway.process.line(({ requestId, msg }) => requestId === id && msg === 'refused')
      assert.match(String(line.cause), cause)
    }
    const sample = 'gateway_auth_decisions_total{method="mtls",outcome="bad_statement"}'
    assert.equal(await gateway.metric(sample), cases.length)
  })

  it('has no roles where its entry asks for none', async () => {
    const certificate = await issue(qwacExtensions(['PSP_AI']), 'CN=x,2.5.4.97=PSDDE-BAFIN-7')
    assert.equal((await ask('/any', certificate)).status, 200)
    assert.equal((await ask('/accounts', certificate)).status, 403)
  })

  it('loses its roles by an edit of its entry, on an open connection too', async () => {
    const certificate = await issue(qwacExtensions(['PSP_AI']))
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    assert.equal((await ask('/accounts', certificate, agent)).status, 200)
    writeFileSync(gateway.clientsFile, JSON.stringify({ clients: clients(false) }))
    await gateway.process.line(({ msg }) => msg === 'clients are in force')
    const { status } = await ask('/accounts', certificate, agent)
    agent.destroy()
    assert.equal(status, 403)
  })
})

describe('with GATEWAY_TLS_CLIENT_OCSP=hard', { skip: skipWithout('openssl') }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'client-ocsp-'))
  let authority: OcspAuthority
  let responder: ChildProcess
  let upstream: TestUpstream
  let tls: TlsSetup
  let gateway: TestGateway

  /** Writes the file by which `openssl ocsp` responds. */
  const writeIndex = (revoked: string) => {
    const row = (name: string, serial: string) =>
      name === revoked
        ? `R\t401231000000Z\t250101000000Z\t${serial}\tunknown\t/CN=${name}\n`
        : `V\t401231000000Z\t\t${serial}\tunknown\t/CN=${name}\n`
    writeFileSync(join(folder, 'served.txt'), row('good', '15') + row('gone', '16') + row('late', '17'))
  }
  before(async () => {
    authority = new OcspAuthority(folder)
    writeIndex('gone')
    const args =
      'ocsp -port 0 -index served.txt -CA ca.pem -rsigner ca.pem -rkey ca-key.pem -nmin 60 -timeout 60'
    responder = spawn('openssl', args.split(' '), { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] })
    let port = ''
    const { stdout, stderr } = responder
    assert.ok(stdout && stderr)
    stderr.resume()
    for await (const line of createInterface(stdout)) {
      port = /ACCEPT .*:(\d+)/.exec(line)?.[1] ?? ''
      if (port !== '') break
    }
    const more = `authorityInfoAccess = OCSP;URI:http://127.0.0.1:${port}/`
    for (const [at, name] of ['good', 'gone', 'late', 'new'].entries())
      authority.issue(name, 0x15 + at, { section: 'client', more })
    upstream = await startUpstream()
    tls = await makeTlsSetup()
    const { GATEWAY_TLS_CLIENT_CRL: _, ...env } = tls.env
    gateway = await startGateway({
      config: {
        upstream: upstream.url,
        routes: [
          { path: '/machine', auth: ['mtls'] },
          { path: '/bound', auth: ['bearer'] },
          { path: '/open', auth: ['none'], clientCert: true },
        ],
      },
      clients: ['good', 'gone', 'late', 'new'].map((id) => ({ id, mtls: { subject: `CN=${id}` } })),
      env: { ...env, GATEWAY_TLS_CLIENT_CA: authority.caFile, GATEWAY_TLS_CLIENT_OCSP: 'hard' },
    })
  })
  after(async () => {
    responder.kill()
    assert.equal(await gateway.end(), 0)
    upstream.close()
    rmSync(folder, { recursive: true })
  })

  const ask = async (name: string, path = '/machine', headers = {}) => {
    const { cert, key } = authority.textsOf(name)
    const certificate = { certPem: cert, keyPem: key } as Issued
    return secureCall({ port: gateway.tlsPort, path, ca: tls.ca, certificate, headers })
  }
  /** Sends a token that is bound to the certificate (RFC 8705). */
  const askBound = async (name: string) => {
    const { raw } = authority.certificate(name).leaf
    const token = await upstream.issuer.token({ cnf: { 'x5t#S256': hash('sha256', raw, 'base64url') } })
    return ask(name, '/bound', { authorization: `Bearer ${token}` })
  }

  it('a certificate passes if the responder calls it good, and is refused if it is revoked or unknown', async () => {
    assert.equal((await ask('good')).status, 200)
    for (const name of ['gone', 'new']) {
      const answer = await ask(name)
      assert.deepEqual([answer.status, answer.json().code], [401, 'invalid_certificate'])
    }
    for (const outcome of ['good', 'revoked', 'unknown'])
      assert.equal(await gateway.metric(`gateway_client_ocsp_total{outcome="${outcome}"}`), 1)
  })

  it('without the responder, its last valid response about a certificate decides; a certificate without such a response gets 503', async () => {
    responder.kill()
    await once(responder, 'exit')
    assert.equal((await ask('good')).status, 200)
    const answer = await ask('late')
    assert.deepEqual([answer.status, answer.json().code], [503, 'revocation_unavailable'])
    assert.equal(answer.headers['retry-after'], '5')
    const passed = async (name: string) =>
      (await ask(name, '/open')).json<SeenRequest>().headers['client-cert'] !== undefined
    assert.deepEqual([await passed('late'), await passed('gone'), await passed('good')], [false, false, true])
    assert.equal((await ask('gone')).status, 401)
    assert.equal((await askBound('good')).status, 200)
    const refused = [await askBound('gone'), await askBound('late')]
    assert.deepEqual(
      refused.map(({ status, json }) => [status, json().code]),
      [
        [401, 'invalid_token'],
        [503, 'revocation_unavailable'],
      ],
    )
    assert.ok((await gateway.metric('gateway_client_ocsp_total{outcome="unavailable"}')) >= 1)
  })
})
