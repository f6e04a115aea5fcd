import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  CLIENT_AUTH,
  makeAuthority,
  makeCertificate,
  makeRevocationList,
  SERVER_AUTH,
} from '../tls/demo/throw-away-ca.ts'

/** PEM options for `tls.connect`, `https.request` and the like. */
export interface ClientCertificate {
  readonly cert: string
  readonly key: string
  /** The server's authority. */
  readonly ca: string
}

export interface AuthorityFiles {
  /** Makes a gateway's HTTPS listener trust the authority. */
  readonly env: Readonly<Record<string, string>>
  /** @param subject RFC 4514, for example `CN=bank-b,O=Bank B` */
  issue(wish: { readonly subject: string; readonly sanUri?: string }): Promise<ClientCertificate>
}

/** Makes an authority and a certificate for localhost, and writes a gateway's files into `dir`. */
export async function makeAuthorityFiles(dir: string): Promise<AuthorityFiles> {
  const ca = await makeAuthority({ subject: 'CN=Root,O=Test' })
  const server = await makeCertificate({
    subject: 'CN=localhost',
    issuer: ca,
    san: [
      { type: 'dns', value: 'localhost' },
      { type: 'ip', value: '127.0.0.1' },
    ],
    extendedKeyUsages: [SERVER_AUTH],
  })
  const write = (name: string, text: string) => {
    const file = join(dir, name)
    writeFileSync(file, text)
    return file
  }
  return {
    env: {
      GATEWAY_TLS_PORT: '0',
      GATEWAY_TLS_CERT: write('server.pem', server.certPem),
      GATEWAY_TLS_KEY: write('server-key.pem', server.keyPem),
      GATEWAY_TLS_CLIENT_CA: write('ca.pem', ca.certPem),
      GATEWAY_TLS_CLIENT_CRL: write('crl.pem', await makeRevocationList(ca)),
    },
    issue: async ({ subject, sanUri }) => {
      const san = sanUri === undefined ? [] : [{ type: 'url' as const, value: sanUri }]
      const { certPem, keyPem } = await makeCertificate({
        subject,
        issuer: ca,
        san,
        extendedKeyUsages: [CLIENT_AUTH],
      })
      return { cert: certPem, key: keyPem, ca: ca.certPem }
    },
  }
}
