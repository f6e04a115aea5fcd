import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setDefaultCACertificates } from 'node:tls'
import { makeAuthority, makeCertificate, SERVER_AUTH } from '../../tls/demo/throw-away-ca.ts'
import { transport } from './scripted.test-support.ts'

/** Runs the contract over TLS. */
const ca = await makeAuthority({ subject: 'CN=Root,O=Test' })
const server = await makeCertificate({
  subject: 'CN=localhost',
  issuer: ca,
  san: [{ type: 'ip', value: '127.0.0.1' }],
  extendedKeyUsages: [SERVER_AUTH],
})
setDefaultCACertificates([ca.certPem])
const folder = mkdtempSync(join(tmpdir(), 'upstream-tls-'))
process.on('exit', () => rmSync(folder, { recursive: true }))
process.env.NODE_EXTRA_CA_CERTS = join(folder, 'ca.pem')
writeFileSync(process.env.NODE_EXTRA_CA_CERTS, ca.certPem)
transport.tls = { cert: server.certPem, key: server.keyPem }
await import('./attempts.test.ts')
await import('./responses.test.ts')
await import('./connections.test.ts')
await import('./flow.test.ts')
await import('./requests.test.ts')
await import('./retries.test.ts')
await import('./guarded.test.ts')
await import('./time.test.ts')
await import('./unread-bodies.test.ts')
await import('../create-upstreams.test.ts')
await import('../http1/hostile.test.ts')
await import('../http1/response-buffers.test.ts')
await import('../http1/response-differential.test.ts')
