/**
 * Bytes of a base64url text (RFC 4648 section 5) as JOSE writes it (RFC 7515 section 2): not empty, no padding, no
 * other alphabet, no line breaks, no stray bits in the last character. Undefined when it is anything else.
 */
export function decodeBase64url(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64url')
  // Node's decoder accepts all of these; only the canonical spelling is encoded to the same text again.
  return bytes.length > 0 && bytes.toString('base64url') === text ? bytes : undefined
}
