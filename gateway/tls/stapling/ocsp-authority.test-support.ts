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
  /** Name of the files of the certificate and key that sign; default: those of the authority. */
  readonly signer?: string
  /** Time until the response expires; 0: it does not say when. */
  readonly minutes?: number
  /** File of the certificate that is asked for. */
  readonly name?: string
  /** Words for `openssl ocsp` about the request. */
  readonly more?: string
  /** Words for `openssl ocsp` about the signature of the response. */
  readonly signing?: string
}

/** An authority with certificates of servers. openssl makes it and answers for it. */
export class OcspAuthority {
  readonly #folder: string

  /** @param folder an empty one; @param kind of the authority's key: words for `openssl req -newkey` */
  constructor(folder: string, kind = P_256) {
    this.#folder = folder
    writeFileSync(join(folder, 'ca.cnf'), CONFIG)
    this.#certify('ca', kind, '-subj /CN=OCSP-Root -config ca.cnf -extensions ca')
    this.issue('server', 10)
  }

  get caFile(): string {
    return join(this.#folder, 'ca.pem')
  }

  /** @returns one text with a certificate and its issuer, and one with its key */
  issue(
    name: string,
    serial: number,
    { section = 'server', more = '' } = {},
  ): { readonly cert: string; readonly key: string } {
    writeFileSync(join(this.#folder, `${name}.cnf`), CONFIG.replace(`[${section}]`, `[${section}]\n${more}`))
    const issuer = `-CA ca.pem -CAkey ca-key.pem -set_serial ${serial}`
    this.#certify(name, P_256, `-subj /CN=${name} -config ${name}.cnf -extensions ${section} ${issuer}`)
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

  /** The response of `openssl ocsp` about a certificate, in DER. */
  respond({ more = '', ...wish }: Wish = {}): Buffer {
    return this.#answer(`-issuer ca.pem ${more} -cert ${wish.name ?? 'server'}.pem -no_nonce`, wish)
  }

  /** The response of `openssl ocsp` to a request, in DER. */
  respondTo(request: Buffer, wish: Wish = {}): Buffer {
    writeFileSync(join(this.#folder, 'request.der'), request)
    return this.#answer('-reqin request.der', wish)
  }

  #answer(
    question: string,
    { status = 'good', signer = 'ca', minutes = 60, name = 'server', signing = '' }: Wish,
  ): Buffer {
    const serial = this.certificate(name).leaf.serialNumber
    const revoked = status === 'revoked' ? '250101000000Z' : ''
    const known = `${status === 'revoked' ? 'R' : 'V'}\t401231000000Z\t${revoked}\t${serial}\tunknown\t/CN=${name}\n`
    writeFileSync(join(this.#folder, 'index.txt'), status === 'unknown' ? '' : known)
    const until = minutes === 0 ? '' : ` -nmin ${minutes}`
    this.#openssl(
      `ocsp -index index.txt -CA ca.pem -rsigner ${signer}.pem -rkey ${signer}-key.pem ${question} -respout response.der${until} ${signing}`,
    )
    return readFileSync(join(this.#folder, 'response.der'))
  }

  #certify(name: string, kind: string, words: string): void {
    this.#openssl(
      `req -x509 -newkey ${kind} -nodes -keyout ${name}-key.pem -days 2 -out ${name}.pem ${words}`,
    )
  }

  #openssl(words: string): void {
    const args = words.split(' ').filter((word) => word !== '')
    execFileSync('openssl', args, { cwd: this.#folder, stdio: 'pipe' })
  }
}
