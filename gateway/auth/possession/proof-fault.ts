/**
 * Why a token is not accepted from whoever presents it, though the token itself is good; all are answered 401
 * (RFC 9449 section 7.1, RFC 8705 section 3). `invalid_dpop_proof`: the proof; `use_dpop_nonce`: the proof has no nonce
 * of ours, or one that is too old; `invalid_token`: the token is bound to something else. Immutable.
 */
export interface ProofFault {
  readonly error: 'invalid_dpop_proof' | 'use_dpop_nonce' | 'invalid_token'
  /** Public sentence for `error_description`; only characters that RFC 6750 section 3 allows there. */
  readonly description: string
  /** Private, for the log. Text out of the proof is cut short and quoted. */
  readonly cause: string
}
