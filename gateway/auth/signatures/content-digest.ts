import { hash } from 'node:crypto'
import { parseDictionary } from '../../edge/syntax/structured-field.ts'
import type { OrFault } from '../tokens/verification.ts'

/** Secure hashes (RFC 9530 section 5). Others in the field are ignored. */
export const HASHES: Readonly<Record<string, string>> = { 'sha-256': 'sha256', 'sha-512': 'sha512' }

/**
 * Compares Content-Digest (RFC 9530) with the body as sent. It needs a right digest of `HASHES`, and no wrong one.
 * @returns `digest`: the member sha-256, else sha-512, in canonical form
 */
export function compareDigest(field: string, body: Buffer): OrFault<{ readonly digest: string }, string> {
  const digests = parseDictionary(field)
  if (digests === undefined) return { fault: 'Content-Digest is no dictionary that names each digest once' }
  let digest: string | undefined
  for (const [name, { item }] of digests) {
    const algorithm = Object.hasOwn(HASHES, name) ? HASHES[name] : undefined
    if (algorithm === undefined) continue
    if (item?.kind !== 'bytes') return { fault: `the digest ${name} is no byte sequence` }
    if (item.text !== `:${hash(algorithm, body, 'base64')}:`)
      return { fault: `the digest ${name} is not that of the body` }
    if (digest === undefined || name === 'sha-256') digest = `${name}=${item.text}`
  }
  return digest === undefined ? { fault: 'Content-Digest has neither sha-256 nor sha-512' } : { digest }
}

export function digestFault(field: string, body: Buffer): string | undefined {
  return compareDigest(field, body).fault
}
