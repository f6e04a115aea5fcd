import type { KeyObject } from 'node:crypto'
import { compactVerify } from 'jose/jws/compact/verify'
import jwt from 'jsonwebtoken'
import type { Algorithm } from './verification-key.ts'

/**
 * Whether the key signed this compact JWS by this algorithm, which must be the one its header names. A promise for
 * EdDSA only: jsonwebtoken has none, so jose verifies it. Neither throws nor rejects.
 */
export function isSignedBy(key: KeyObject, algorithm: Algorithm, jws: string): boolean | Promise<boolean> {
  if (algorithm === 'EdDSA') {
    return compactVerify(jws, key, { algorithms: [algorithm] }).then(
      () => true,
      () => false,
    )
  }
  try {
    // Its time checks are off: readClaims checks times more strictly, with our clock.
    jwt.verify(jws, key, { algorithms: [algorithm], ignoreExpiration: true, ignoreNotBefore: true })
    return true
  } catch {
    return false
  }
}
