import { hash } from 'node:crypto'
import { parseDictionary } from '../../edge/syntax/structured-field.ts'

/** Hashes that nobody can find a second body for (RFC 9530 section 5). Others in the field prove nothing. */
const HASHES: Readonly<Record<string, string>> = { 'sha-256': 'sha256', 'sha-512': 'sha512' }

/**
 * Compares Content-Digest (RFC 9530 section 2) with the body as it was transferred, so with its content coding. Every hash that
 * is known must be right, and one must be there. @returns what is wrong
 */
export function digestFault(field: string, body: Buffer): string | undefined {
  const digests = parseDictionary(field)
  if (digests === undefined) return 'Content-Digest is no dictionary of digests, each named once'
  let known = 0
  for (const [name, { item }] of digests) {
    const algorithm = Object.hasOwn(HASHES, name) ? HASHES[name] : undefined
    if (algorithm === undefined) continue
    if (item?.kind !== 'bytes') return `the digest ${name} is no byte sequence`
    if (!hash(algorithm, body, 'buffer').equals(item.value))
      return `the digest ${name} is not that of the body`
    known++
  }
  return known === 0 ? 'Content-Digest has neither sha-256 nor sha-512' : undefined
}

/** The member of a Content-Digest without a fault that says most of the body: sha-256, else sha-512, canonical. */
export function recordedDigest(field: string): string {
  const digests = parseDictionary(field)
  const name = digests?.has('sha-256') ? 'sha-256' : 'sha-512'
  return `${name}=${digests?.get(name)?.item?.text}`
}
