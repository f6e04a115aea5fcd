import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import type { Fault } from '../../config/faults.ts'
import { type Dated, faultAt, timeFault } from '../../config/rules/certificate-times.ts'
import { type PemBlock, readPem } from './pem.ts'

/** A certificate that is not valid now is no fault, because the clock may be wrong. */
export function timeWarning({ file, path, reason }: Fault): string {
  return `${file}: ${path} ${reason}`
}

export class Findings {
  readonly faults: Fault[] = []
  /** Probable mistakes that do not prevent serving, one sentence each. */
  readonly warnings: string[] = []

  readonly dated: Dated[] = []

  fault(fault: Fault): undefined {
    this.faults.push(fault)
  }

  warn(warning: string): void {
    this.warnings.push(warning)
  }

  date({ path, ...one }: Omit<Dated, 'place'> & { readonly path: string }, nowMs: number): void {
    const dated = { ...one, place: { file: one.file, path } }
    this.dated.push(dated)
    const fault = faultAt(dated, nowMs)
    if (fault !== undefined) this.warn(timeWarning(fault))
  }
}

/** RFC 9325 section 4.5. */
const MIN_RSA_BITS = 2048
/** P-256, P-384 and P-521, which every client supports. */
const CURVES: ReadonlySet<string | undefined> = new Set(['prime256v1', 'secp384r1', 'secp521r1'])
const SERVER_AUTH = '1.3.6.1.5.5.7.3.1'

/** Undefined after a fault, which is added to `findings`. @param read returns a text that says what is wrong */
export function readBlocks<Value extends object>(
  text: string,
  { file, findings }: { readonly file: string; readonly findings: Findings },
  read: (block: PemBlock) => Value | string,
): readonly Value[] | undefined {
  const blocks = readPem(text)
  if (typeof blocks === 'string') return findings.fault({ file, path: '$', reason: blocks })
  const values: Value[] = []
  for (const [index, block] of blocks.entries()) {
    const value = read(block)
    if (typeof value !== 'string') values.push(value)
    else findings.fault({ file, path: `block ${index + 1}`, reason: value })
  }
  return values.length === blocks.length ? values : undefined
}

export function readCertificate({ label, text }: PemBlock): X509Certificate | string {
  if (label.includes('PRIVATE KEY')) return 'is a private key: it has no place beside certificates'
  if (label !== 'CERTIFICATE') return `must be a CERTIFICATE, but is a ${label}`
  try {
    return new X509Certificate(text)
  } catch {
    return 'is not an X.509 certificate'
  }
}

export function readKey(
  text: string,
  { file, findings }: { readonly file: string; readonly findings: Findings },
): KeyObject | undefined {
  const refuse = (reason: string) => findings.fault({ file, path: '$', reason })
  const blocks = readPem(text)
  if (typeof blocks === 'string') return refuse(blocks)
  // `openssl ecparam -genkey` writes the curve's parameters before the key.
  const [block, ...rest] = blocks.filter(({ label }) => label !== 'EC PARAMETERS')
  if (block === undefined || rest.length > 0) return refuse('must hold one private key and nothing else')
  if (!block.label.endsWith('PRIVATE KEY')) return refuse(`must be a PRIVATE KEY, but is a ${block.label}`)
  if (block.label.startsWith('ENCRYPTED') || block.der.length === 0) {
    return refuse('is encrypted: store it decrypted, readable by the gateway alone')
  }
  try {
    const key = createPrivateKey(block.text)
    const reason = keyFault(key)
    return reason === undefined ? key : refuse(reason)
  } catch {
    return refuse('is not a private key')
  }
}

function keyFault({ asymmetricKeyType: kind, asymmetricKeyDetails: details }: KeyObject): string | undefined {
  if (kind === 'rsa') {
    const bits = details?.modulusLength ?? 0
    return bits >= MIN_RSA_BITS
      ? undefined
      : `must be an RSA key of ${MIN_RSA_BITS} bits or more, but has ${bits}`
  }
  if (kind !== 'ec') return `must be an RSA or an EC key, but is of the kind ${kind}`
  if (CURVES.has(details?.namedCurve)) return undefined
  return `must be on the curve P-256, P-384 or P-521, but is on ${details?.namedCurve}`
}

/** A key that is not the key of the certificate is a fault, everything else a warning. */
export function checkServerCertificate(
  chain: readonly [X509Certificate, ...X509Certificate[]],
  check: {
    readonly certFile: string
    readonly keyFile: string
    readonly key: KeyObject
    readonly nowMs: number
    readonly findings: Findings
  },
): void {
  const { certFile, keyFile, key, nowMs, findings } = check
  const [leaf] = chain
  if (!leaf.checkPrivateKey(key)) {
    const reason = `is not the key of the certificate in ${certFile}`
    findings.fault({ file: keyFile, path: '$', reason })
  }
  const usages = leaf.keyUsage
  if (usages !== undefined && !usages.includes(SERVER_AUTH)) {
    findings.warn(
      `${certFile}: the certificate is not for servers (extended key usage): clients will refuse it`,
    )
  }
  for (const [index, certificate] of chain.entries()) {
    const owner = index === 0 ? '' : certificate.subject
    const reasonAt = (atMs: number) => timeFault(certificate, atMs)
    const path = `certificate ${index + 1}`
    findings.date({ file: certFile, path, owner, isSpare: false, reasonAt }, nowMs)
  }
  for (const [index, certificate] of chain.entries()) {
    const next = chain[index + 1]
    if (next === undefined || certificate.checkIssued(next)) continue
    findings.warn(
      `${certFile}: certificate ${index + 2} has not issued certificate ${index + 1}: some clients will refuse it`,
    )
  }
}
