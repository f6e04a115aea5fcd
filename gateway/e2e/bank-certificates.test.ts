import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Authority, CLIENT_AUTH, makeAuthority, makeCertificate } from '../tls/demo/throw-away-ca.ts'
import { psd2Statement, qcStatements, qwacExtensions, rolesOf } from '../tls/clients/psd2-statement.test-support.ts'
import { startGateway, type TestGateway } from './running-gateway.ts'
import { makeTlsSetup, secureCall, type TlsSetup } from './secure.ts'
import { type SeenRequest, startUpstream, type TestUpstream } from './test-upstream.ts'

const SUBJECT = 'CN=tpp.example,2.5.4.97=PSDDE-BAFIN-123456,O=TPP,L=Berlin,C=DE'

describe('a bank that is known by its organizationIdentifier', () => {
  let upstream: TestUpstream
  let tls: TlsSetup
  let other: Authority
  let gateway: TestGateway

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
      clients: [
        {
          id: 'tpp',
          scopes: ['payments'],
          mtls: {
            organizationIdentifier: 'PSDDE-BAFIN-123456',
            issuer: 'CN=Root, O=Test',
            psd2Roles: true,
          },
        },
        { id: 'plain', mtls: { organizationIdentifier: 'PSDDE-BAFIN-7', issuer: 'CN=Root, O=Test' } },
      ],
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
  const ask = (path: string, certificate: Awaited<ReturnType<typeof issue>>) =>
    secureCall({ port: gateway.tlsPort, path, ca: tls.ca, certificate })

  it('may do what the roles of its certificate permit, in either encoding, and no more', async () => {
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

  it('is the same after a renewal with another locality, and another of a similar name is not', async () => {
    const moved = SUBJECT.replace('L=Berlin', 'L=Wien').replace('tpp.example', 'api.tpp.example')
    assert.equal((await ask('/accounts', await issue(qwacExtensions(['PSP_AI']), moved))).status, 200)
    for (const subject of [SUBJECT.replace('123456', '12345'), 'CN=PSDDE-BAFIN-123456,O=PSDDE-BAFIN-123456'])
      assert.equal((await ask('/accounts', await issue(qwacExtensions(['PSP_AI']), subject))).status, 401)
  })

  it('is not what another authority calls so', async () => {
    const answer = await ask('/any', await issue(qwacExtensions(['PSP_AI']), SUBJECT, other))
    assert.deepEqual([answer.status, answer.json().code], [401, 'invalid_certificate'])
  })

  it('is refused without a good statement, and only the log says why', async () => {
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
})
