import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'

/** What is copied: a file, or bytes. */
export type ShipSource = { readonly path: string } | { readonly bytes: Uint8Array }

/** By what a copy is compared. */
export interface Digest {
  readonly bytes: number
  /** Hexadecimal. */
  readonly sha256: string
  /** Hexadecimal; an ETag is often this. */
  readonly md5: string
}

/** Where copies go. Names have `/` between their parts, and are below the directory or prefix of the target. */
export interface ShipTarget {
  /** Stays the same as long as copies go to the same place. */
  readonly name: string
  /** Whether the copy is there and whole, read back or as the other side has checked it. @throws Error when that cannot be told. */
  has(name: string, digest: Digest): Promise<boolean>
  /**
   * Copies, and returns when `has` would say so.
   *
   * @param replaces whether the name may be there with other bytes.
   * @throws Error that names the copy, when it is not there whole.
   */
  put(name: string, source: ShipSource, digest: Digest, replaces: boolean): Promise<void>
}

export async function digestOf(source: ShipSource): Promise<Digest> {
  const [sha256, md5] = [createHash('sha256'), createHash('md5')]
  let bytes = 0
  for await (const chunk of 'path' in source ? createReadStream(source.path) : [source.bytes]) {
    sha256.update(chunk)
    md5.update(chunk)
    bytes += chunk.length
  }
  return { bytes, sha256: sha256.digest('hex'), md5: md5.digest('hex') }
}
