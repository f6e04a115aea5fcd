import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeAuthority, makeCertificate } from '../tls/demo/throw-away-ca.ts'

/** PEM files for localhost and 127.0.0.1. */
export interface CertificateFiles {
  readonly certFile: string
  readonly keyFile: string
  /** Certificate and key in one file. */
  readonly bothFile: string
  /** The authority's certificate. */
  readonly caFile: string
}

export async function makeCertificateFiles(dir: string): Promise<CertificateFiles> {
  const ca = await makeAuthority({ subject: 'CN=Benchmark' })
  const { certPem, keyPem } = await makeCertificate({
    subject: 'CN=localhost',
    issuer: ca,
    san: [
      { type: 'dns', value: 'localhost' },
      { type: 'ip', value: '127.0.0.1' },
    ],
  })
  const file = (name: string, text: string) => {
    const path = join(dir, name)
    writeFileSync(path, text, { mode: 0o600 })
    return path
  }
  return {
    certFile: file('cert.pem', certPem),
    keyFile: file('key.pem', keyPem),
    bothFile: file('both.pem', certPem + keyPem),
    caFile: file('ca.pem', ca.certPem),
  }
}
