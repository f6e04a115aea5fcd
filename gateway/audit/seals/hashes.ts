import { hash } from 'node:crypto'
import { SEAL_HEAD } from '../seal-records.ts'

/** SHA-256, as in RFC 6962 section 2.1. */
export const HASH_BYTES = 32

/** Different prefixes keep a leaf from being taken for a node. */
export const LEAF_PREFIX = 0
export const NODE_PREFIX = 1

/** A hash as latin1 text. A buffer takes twice as long to make. */
export type HashText = string

/** Without a length, each call of `hash` spends a tenth of its time on checking whether the algorithm needs one. */
const AS_TEXT = { outputEncoding: 'latin1', outputLength: HASH_BYTES } as const

export function sha256(bytes: Uint8Array): HashText {
  return hash('sha256', bytes, AS_TEXT)
}

export function hashBytes(text: HashText): Buffer {
  return Buffer.from(text, 'latin1')
}

export const EMPTY_ROOT: Buffer = hashBytes(sha256(Buffer.of()))

export function leafHash(leaf: Uint8Array): Buffer {
  return hashBytes(sha256(Buffer.concat([Buffer.of(LEAF_PREFIX), leaf])))
}

/** @param line with its `\n` */
export function lineHash(line: Uint8Array): HashText {
  return sha256(Buffer.concat([Buffer.of(LEAF_PREFIX), leafOf(line)]))
}

export function nodeHash(left: Uint8Array, right: Uint8Array): Buffer {
  return hashBytes(sha256(Buffer.concat([Buffer.of(NODE_PREFIX), left, right])))
}

/** Longest entry of a log (C2SP tlog-tiles: a uint16 tells its length). */
export const LEAF_MAX_BYTES = 65_535

/** A line that is too long has the leaf `{"type":"OVERSIZE","bytes","sha256"}`. */
export function leafOf(line: Uint8Array): Uint8Array {
  return line.length <= LEAF_MAX_BYTES ? line : oversizeLeaf(line.length, hash('sha256', line, 'hex'))
}

/** Both parameters include the line's `\n`. */
export function oversizeLeaf(lineBytes: number, sha256Hex: string): Buffer {
  return Buffer.from(`${JSON.stringify({ type: 'OVERSIZE', bytes: lineBytes, sha256: sha256Hex })}\n`)
}

/** The E of SEAL: few other types have an E there. */
const SEAL_AT = SEAL_HEAD.indexOf('EAL')
const SEAL = 'E'.charCodeAt(0)

export function isSeal(bytes: Buffer, start: number, end: number): boolean {
  if (bytes[start + SEAL_AT] !== SEAL || end - start < SEAL_HEAD.length) return false
  return bytes.toString('latin1', start, start + SEAL_HEAD.length) === SEAL_HEAD
}
