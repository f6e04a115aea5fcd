import { hash } from 'node:crypto'

/** Hashes of the log's Merkle tree: SHA-256 as in RFC 6962 section 2.1. */
export const HASH_BYTES = 32

/** First byte of what is hashed: a leaf can never be taken for a node. */
export const LEAF_PREFIX = 0
export const NODE_PREFIX = 1

/** A hash as text has one character (U+0000 to U+00FF) a byte. In Node this is twice as fast to make as a buffer. */
export type HashText = string

export function sha256(bytes: Uint8Array): HashText {
  return hash('sha256', bytes, 'latin1')
}

export function hashBytes(text: HashText): Buffer {
  return Buffer.from(text, 'latin1')
}

/** The root of the tree without leaves. */
export const EMPTY_ROOT: Buffer = hashBytes(sha256(Buffer.of()))

export function leafHash(leaf: Uint8Array): Buffer {
  return hashBytes(sha256(Buffer.concat([Buffer.of(LEAF_PREFIX), leaf])))
}

export function nodeHash(left: Uint8Array, right: Uint8Array): Buffer {
  return hashBytes(sha256(Buffer.concat([Buffer.of(NODE_PREFIX), left, right])))
}
