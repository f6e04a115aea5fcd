import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { IssuedCertificate } from './ocsp-response.ts'

const P_256 = 'EC -pkeyopt ec_paramgen_curve:P-256'
const CONFIG = `
[ca]
basicConstraints = critical, CA:true
keyUsage = critical, keyCertSign, digitalSignature
[server]
basicConstraints = critical, CA:false
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost, IP:127.0.0.1
[client]
basicConstraints = critical, CA:false
keyUsage = critical, digitalSignature
extendedKeyUsage = clientAuth
[delegate]
keyUsage = critical, digitalSignature
extendedKeyUsage = critical, OCSPSigning
[other]
keyUsage = critical, digitalSignature
extendedKeyUsage = critical, serverAuth
`

export type CertificateStatus = 'good' | 'revoked' | 'unknown'

interface Wish {
  readonly status?: CertificateStatus
  /** Whose certificate and key sign, by the names of their files; default: the authority itself. */
  readonly signer?: string
  /** Until the response expires; 0: it does not say when. */
  readonly minutes?: number
  /** File of the certificate that is asked for. */
  readonly name?: string
  /** Words for `openssl ocsp`, of the request. */
  readonly more?: string
  /** Words for `openssl ocsp`, of how the response is signed. */
  readonly signing?: string
}

/** An authority that openssl makes and speaks for, with certificates of servers. */
export class OcspAuthority {
  readonly #folder: string

  /** @param folder an empty one; @param kind of the authority's key: words for `openssl genpkey` */
  constructor(folder: string, kind = P_256) {
    this.#folder = folder
    writeFileSync(join(folder, 'ca.cnf'), CONFIG)
    this.#openssl(`genpkey -algorithm ${kind} -out ca-key.pem`)
    this.#openssl(
      'req -x509 -new -key ca-key.pem -out ca.pem -subj /CN=OCSP-Root -days 2 -config ca.cnf -extensions ca',
    )
    this.issue('server', 10)
  }

  get caFile(): string {
    return join(this.#folder, 'ca.pem')
  }

  /** @returns the texts of a certificate with that of its issuer, and of its key. */
  issue(
    name: string,
    serial: number,
    { section = 'server', more = '' } = {},
  ): { readonly cert: string; readonly key: string } {
    writeFileSync(join(this.#folder, `${name}.cnf`), CONFIG.replace(`[${section}]`, `[${section}]\n${more}`))
    this.#openssl(`genpkey -algorithm ${P_256} -out ${name}-key.pem`)
    this.#openssl(`req -new -key ${name}-key.pem -out ${name}.csr -subj /CN=${name} -config ca.cnf`)
    this.#openssl(
      `x509 -req -in ${name}.csr -CA ca.pem -CAkey ca-key.pem -set_serial ${serial} -days 2 -extfile ${name}.cnf -extensions ${section} -out ${name}.pem`,
    )
    return this.textsOf(name)
  }

  textsOf(name: string): { readonly cert: string; readonly key: string } {
    const text = (file: string) => readFileSync(join(this.#folder, file), 'utf8')
    return { cert: text(`${name}.pem`) + text('ca.pem'), key: text(`${name}-key.pem`) }
  }

  certificate(name = 'server'): IssuedCertificate {
    const read = (file: string) => new X509Certificate(readFileSync(join(this.#folder, file)))
    return { leaf: read(`${name}.pem`), issuer: read('ca.pem') }
  }

  /** What `openssl ocsp` says of a certificate, in DER. */
  respond({ name = 'server', more = '', ...wish }: Wish = {}): Buffer {
    this.#openssl(`ocsp -issuer ca.pem ${more} -cert ${name}.pem -reqout ${name}.req -no_nonce`)
    return this.respondTo(readFileSync(join(this.#folder, `${name}.req`)), { name, ...wish })
  }

  /** What it says to a request. */
  respondTo(
    request: Buffer,
    { status = 'good', signer = 'ca', minutes = 60, name = 'server', signing = '' }: Wish = {},
  ): Buffer {
    const serial = this.certificate(name).leaf.serialNumber
    const revoked = status === 'revoked' ? '250101000000Z' : ''
    const known = `${status === 'revoked' ? 'R' : 'V'}\t401231000000Z\t${revoked}\t${serial}\tunknown\t/CN=${name}\n`
    writeFileSync(join(this.#folder, 'index.txt'), status === 'unknown' ? '' : known)
    writeFileSync(join(this.#folder, 'request.der'), request)
    const until = minutes === 0 ? '' : ` -nmin ${minutes}`
    this.#openssl(
      `ocsp -index index.txt -CA ca.pem -rsigner ${signer}.pem -rkey ${signer}-key.pem -reqin request.der -respout response.der${until} ${signing}`,
    )
    return readFileSync(join(this.#folder, 'response.der'))
  }

  #openssl(words: string): void {
    const args = words.split(' ').filter((word) => word !== '')
    execFileSync('openssl', args, { cwd: this.#folder, stdio: 'pipe' })
  }
}
