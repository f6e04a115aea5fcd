/**
 * Why a good token is refused from this caller, with 401 (RFC 9449 section 7.1, RFC 8705 section 3).
 * `invalid_dpop_proof`: the proof is bad; `use_dpop_nonce`: it has no nonce of ours or an expired one; `invalid_token`:
 * the token is bound to something else. Immutable.
 */
export interface ProofFault {
  readonly error: 'invalid_dpop_proof' | 'use_dpop_nonce' | 'invalid_token'
  /** Public sentence for `error_description`; only characters that RFC 6750 section 3 allows there. */
  readonly description: string
  /** Private, for the log. Text from the proof is shortened and quoted. */
  readonly cause: string
}
