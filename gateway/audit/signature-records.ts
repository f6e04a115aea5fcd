interface SignerKeyFacts {
  readonly timestamp: string
  readonly clientId: string | undefined
  readonly keyId: string
  readonly thumbprint: string
  /** The public key (RFC 7517). */
  readonly jwk: object
}

/** Last member of a record. */
const SIGNATURE_KEY = ',"signature":{'
const CLOSE = '}'.charCodeAt(0)

/** @param record an API_REQUEST or API_RESPONSE with its `\n` */
export function signedRecord(record: string, signature: object): string {
  return `${record.slice(0, -2)}${SIGNATURE_KEY}${JSON.stringify(signature).slice(1)}}\n`
}

/** Index at which the members before `signature` end. @param end index of the closing brace */
export function signatureAt(record: string, end: number): number {
  return record.charCodeAt(end - 1) === CLOSE ? record.lastIndexOf(SIGNATURE_KEY) : end
}

/** SIGNER_KEY: key of a signature in the same file. The third letter of the type must not be I: see `openChangeOf`. */
export function signerKeyRecord(facts: SignerKeyFacts): string {
  return `${JSON.stringify({ type: 'SIGNER_KEY', ...facts })}\n`
}
