import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { describe, it, type TestContext } from 'node:test'
import type { TlsOptions } from 'node:tls'
import { CLIENT_AUTH, makeAuthority, makeCertificate, SERVER_AUTH } from '../tls/demo/throw-away-ca.ts'
import { bodyOf, send, upstreamsTo } from './contract/scripted.test-support.ts'
import type { UpstreamTlsTerms } from './upstream-tls.ts'

const ca = await makeAuthority({ subject: 'CN=Root,O=Test' })
const other = await makeAuthority({ subject: 'CN=Other' })
const server = await serverOf('pay.internal')
const client = await makeCertificate({ subject: 'CN=gateway', issuer: ca, extendedKeyUsages: [CLIENT_AUTH] })
const stranger = await makeCertificate({
  subject: 'CN=stranger',
  issuer: other,
  extendedKeyUsages: [CLIENT_AUTH],
})

const TERMS: UpstreamTlsTerms = {
  ca: ca.certPem,
  cert: undefined,
  key: undefined,
  serverName: 'pay.internal',
  minVersion: 'TLSv1.2',
  maxVersion: 'TLSv1.3',
}

function serverOf(name: string, more: object = {}) {
  const san = [{ type: 'dns', value: name }] as const
  return makeCertificate({
    subject: `CN=${name}`,
    issuer: ca,
    san,
    extendedKeyUsages: [SERVER_AUTH],
    ...more,
  })
}

/** What comes of a request to such a server: the body, or the cause of the failure. */
async function outcome(
  t: TestContext,
  { options = {}, terms = {} }: { readonly options?: TlsOptions; readonly terms?: Partial<UpstreamTlsTerms> },
): Promise<string> {
  const upstream = createServer({ cert: server.certPem, key: server.keyPem, ...options }, (req, res) => {
    const socket = req.socket as import('node:tls').TLSSocket
    const { subject } = socket.getPeerCertificate()
    const asked = (socket as unknown as { servername?: string | false }).servername
    res.end([asked, socket.alpnProtocol, socket.getProtocol(), subject?.CN].join(' '))
  }).listen(0, '127.0.0.1')
  upstream.on('tlsClientError', () => {})
  await once(upstream, 'listening')
  const { port } = upstream.address() as AddressInfo
  const gateway = upstreamsTo([`https://127.0.0.1:${port}`], { tls: { ...TERMS, ...terms } })
  t.after(async () => {
    await gateway.close()
    upstream.close()
  })
  const { fault, ...response } = await send(gateway, {}).over
  return fault === undefined
    ? bodyOf(response as Parameters<typeof bodyOf>[0])
    : `${fault.kind}: ${fault.cause}`
}

describe('TLS with an upstream on terms of its group', () => {
  it('asks for the name, offers http/1.1, and trusts the authority', async (t) => {
    assert.match(await outcome(t, {}), /^pay\.internal http\/1\.1 TLSv1\.3/)
  })

  it('speaks to an upstream that knows TLS 1.2 alone, but not when 1.3 is the lowest', async (t) => {
    const options = { maxVersion: 'TLSv1.2' } as const
    assert.match(await outcome(t, { options }), /TLSv1\.2/)
    assert.match(await outcome(t, { options, terms: { minVersion: 'TLSv1.3' } }), /^unreachable: .*version/)
    const pinned = { maxVersion: 'TLSv1.2' } as const
    assert.match(await outcome(t, { terms: pinned }), /TLSv1\.2/)
    assert.match(await outcome(t, { options: { minVersion: 'TLSv1.3' }, terms: pinned }), /^unreachable: /)
  })

  it('refuses another authority, another name and what has expired', async (t) => {
    assert.match(await outcome(t, { terms: { ca: other.certPem } }), /^unreachable: .*certificate/)
    assert.match(await outcome(t, { terms: { ca: undefined } }), /^unreachable: .*certificate/)
    assert.match(await outcome(t, { terms: { serverName: 'other.internal' } }), /^unreachable: .*altnames/)
    // The address has no name to ask for, and the certificate does not name it.
    assert.match(await outcome(t, { terms: { serverName: undefined } }), /^unreachable: .*altnames/)
    const { certPem: cert, keyPem: key } = await serverOf('pay.internal', { fromDays: -3, untilDays: -1 })
    assert.match(await outcome(t, { options: { cert, key } }), /^unreachable: .*expired/)
  })

  it('shows its certificate to an upstream that asks for one', async (t) => {
    for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
      const options = { ca: ca.certPem, requestCert: true, rejectUnauthorized: true, maxVersion }
      const shown = (one: typeof client) => ({ cert: one.certPem, key: one.keyPem })
      assert.match(await outcome(t, { options, terms: shown(client) }), /gateway$/)
      assert.doesNotMatch(await outcome(t, { options }), /TLSv1/)
      assert.doesNotMatch(await outcome(t, { options, terms: shown(stranger) }), /TLSv1/)
    }
  })
})
