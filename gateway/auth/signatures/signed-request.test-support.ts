import { constants, createHash, type KeyObject, sign } from 'node:crypto'
import type { Algorithm } from '../keys/signature.ts'

export interface SignedBy {
  readonly key: KeyObject
  readonly algorithm: Algorithm
  /** The value of `@signature-params`, as written. */
  readonly params: string
  readonly label?: string
}

export const digestOf = (body: string | Buffer) =>
  `sha-256=:${createHash('sha256').update(body).digest('base64')}:`

/**
 * Signs a message apart from the code that verifies it.
 *
 * @param components names, as written in Signature-Input, with their values
 */
export function signMessage(
  components: readonly (readonly [component: string, value: string])[],
  { key, algorithm, params, label = 'sig' }: SignedBy,
): { readonly 'Signature-Input': string; readonly Signature: string } {
  const list = `(${components.map(([component]) => component).join(' ')})${params}`
  const lines = components.map(([component, value]) => `${component}: ${value}\n`).join('')
  const signature = signBytes(`${lines}"@signature-params": ${list}`, key, algorithm)
  return {
    'Signature-Input': `${label}=${list}`,
    Signature: `${label}=:${signature.toString('base64')}:`,
  }
}

function signBytes(text: string, key: KeyObject, algorithm: Algorithm): Buffer {
  const bytes = Buffer.from(text, 'latin1')
  const pss = { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: constants.RSA_PSS_SALTLEN_DIGEST }
  switch (algorithm) {
    case 'EdDSA':
      return sign(null, bytes, key)
    case 'ES256':
      return sign('sha256', bytes, { key, dsaEncoding: 'ieee-p1363' })
    case 'RS256':
      return sign('sha256', bytes, key)
    case 'PS256':
      return sign('sha256', bytes, { key, ...pss })
    default:
      return sign('sha512', bytes, { key, ...pss })
  }
}
