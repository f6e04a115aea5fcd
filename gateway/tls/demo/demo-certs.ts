import { hash } from 'node:crypto'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  CLIENT_AUTH,
  type Issued,
  makeAuthority,
  makeCertificate,
  makeRevocationList,
  SERVER_AUTH,
} from './throw-away-ca.ts'

/** Without `force`, writes nothing if some files are there, and names them in `present`. */
export async function makeDemoCertificates(
  directory: string,
  force: boolean,
): Promise<{ readonly present: readonly string[]; readonly instructions: string }> {
  // Private keys: readable by this user only.
  process.umask(0o077)
  const { files, client } = await makeFiles()
  const present = force ? [] : [...files.keys()].filter((name) => existsSync(join(directory, name)))
  if (present.length > 0) return { present, instructions: '' }
  mkdirSync(directory, { recursive: true })
  for (const [name, text] of files) writeFileSync(join(directory, name), text)
  return { present, instructions: instructions(directory, client) }
}

/** Keeps no key of the authority, so that nobody can issue more certificates. */
async function makeFiles(): Promise<{
  readonly files: ReadonlyMap<string, string>
  readonly client: Issued
}> {
  const ca = await makeAuthority({ subject: 'CN=Throw-away authority,O=Countersign demo' })
  const server = await makeCertificate({
    subject: 'CN=localhost,O=Countersign demo',
    issuer: ca,
    san: [
      { type: 'dns', value: 'localhost' },
      { type: 'ip', value: '127.0.0.1' },
      { type: 'ip', value: '::1' },
    ],
    extendedKeyUsages: [SERVER_AUTH],
  })
  const makeClient = (name: string) =>
    makeCertificate({
      subject: `CN=${name},O=Countersign demo`,
      issuer: ca,
      san: [{ type: 'url', value: `urn:countersign:demo:${name}` }],
      extendedKeyUsages: [CLIENT_AUTH],
    })
  const client = await makeClient('bank-b')
  const revoked = await makeClient('bank-x')
  const files = new Map([
    ['ca.pem', ca.certPem],
    ['server.pem', server.certPem],
    ['server-key.pem', server.keyPem],
    ['client.pem', client.certPem],
    ['client-key.pem', client.keyPem],
    ['revoked.pem', revoked.certPem],
    ['revoked-key.pem', revoked.keyPem],
    ['crl.pem', await makeRevocationList(ca)],
    ['crl-revoking.pem', await makeRevocationList(ca, { revoked: [revoked] })],
  ])
  return { files, client }
}

function instructions(directory: string, client: Issued): string {
  const at = (name: string) => join(directory, name)
  return `Throw-away certificates, good for 30 days, are in ${directory}. Never use them for anything real.

The gateway with them:
  GATEWAY_TLS_PORT=8443 GATEWAY_TLS_CERT=${at('server.pem')} GATEWAY_TLS_KEY=${at('server-key.pem')} \\
  GATEWAY_TLS_CLIENT_CA=${at('ca.pem')} GATEWAY_TLS_CLIENT_CRL=${at('crl.pem')} npm start

A client with its certificate:
  curl --cacert ${at('ca.pem')} --cert ${at('client.pem')} --key ${at('client-key.pem')} https://localhost:8443/api/data

The client in config/clients.json, by one of:
  "mtls": { "sanUri": "urn:countersign:demo:bank-b" }
  "mtls": { "subject": "CN=bank-b,O=Countersign demo" }
  "mtls": { "thumbprint": "${hash('sha256', Buffer.from(client.certificate.rawData), 'hex')}" }

The running gateway accepts revoked.pem until you revoke it:
  cp ${at('crl-revoking.pem')} ${at('crl.pem')}`
}
