import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TLSSocket } from 'node:tls'
import { temporaryDirectory } from '../storage/temporary-directory.test-support.ts'
import { CLIENT_AUTH, makeAuthority, makeCertificate, SERVER_AUTH } from '../tls/demo/throw-away-ca.ts'
import { call } from './client.ts'
import { startGateway, until } from './running-gateway.ts'

test('a group presents its certificate, also in health checks, and a new one without a restart', async (t) => {
  const dir = temporaryDirectory(t)
  const ca = await makeAuthority({ subject: 'CN=Root,O=Test' })
  const san = [{ type: 'dns', value: 'pay.internal' }] as const
  const server = await makeCertificate({ subject: 'CN=x', issuer: ca, san, extendedKeyUsages: [SERVER_AUTH] })
  const file = (name: string) => join(dir, name)
  const show = async (name: string) => {
    const usage = { extendedKeyUsages: [CLIENT_AUTH] }
    const { certPem, keyPem } = await makeCertificate({ subject: `CN=${name}`, issuer: ca, ...usage })
    writeFileSync(file('own.pem'), certPem)
    writeFileSync(file('own.key'), keyPem)
  }
  writeFileSync(file('ca.pem'), ca.certPem)
  await show('first')
  const checks = new Set<string>()
  const terms = { cert: server.certPem, key: server.keyPem, ca: ca.certPem, requestCert: true }
  const upstream = createServer(terms, (req, res) => {
    const { CN } = (req.socket as TLSSocket).getPeerCertificate().subject
    if (req.url === '/up') checks.add(String(CN))
    res.end(CN)
  }).listen(0, '127.0.0.1')
  t.after(() => {
    upstream.close()
    upstream.closeAllConnections()
  })
  await once(upstream, 'listening')
  const { port } = upstream.address() as AddressInfo
  const tls = {
    caFile: file('ca.pem'),
    certFile: file('own.pem'),
    keyFile: file('own.key'),
    serverName: 'pay.internal',
  }
  const gateway = await startGateway({
    config: {
      upstreams: {
        pay: {
          targets: [`https://127.0.0.1:${port}`],
          healthCheck: { path: '/up', intervalMs: 100, timeoutMs: 20_000 },
          tls,
        },
      },
      routes: [{ path: '/*', auth: ['none'], upstream: 'pay' }],
    },
  })
  t.after(() => gateway.end())
  const first = await call(`${gateway.url}/`)
  assert.deepEqual([first.status, first.body], [200, 'first'])
  await until(() => (checks.has('first') ? true : undefined))
  await show('second')
  await until(async () => ((await call(`${gateway.url}/`)).body === 'second' ? true : undefined))
  await until(() => (checks.has('second') ? true : undefined))
  const change = await until(() => gateway.audit().find(({ type }) => type === 'CONFIG_CHANGE'))
  assert.doesNotMatch(JSON.stringify(change), /PRIVATE|CERTIFICATE/)
})
