import { createHash } from 'node:crypto'
import { createReadStream, existsSync, statSync } from 'node:fs'
import { copyFile, open, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { makeDirectory, OWNER_ONLY, syncDirectory } from '../../storage/line-file.ts'

export type ShipSource = { readonly path: string } | { readonly bytes: Uint8Array }

export interface Digest {
  readonly bytes: number
  /** Hexadecimal. */
  readonly sha256: string
  /** Hexadecimal; often the ETag. */
  readonly md5: string
  readonly parts?: readonly Digest[]
}

/** Sources of `fromBytes` or more are sent in parts of `partBytes`. */
export type CutRule = { readonly fromBytes: number; readonly partBytes: number }

/** Names have `/` between their parts. */
export interface ShipTarget {
  /** Stays the same while copies go to the same place. */
  readonly name: string
  readonly cut?: CutRule
  /** @throws Error when it cannot tell */
  has(name: string, digest: Digest): Promise<boolean>
  /** Makes `has` true. @param replaces false: refuses a name with other bytes @throws Error that names the copy */
  put(name: string, source: ShipSource, digest: Digest, replaces: boolean): Promise<void>
}

export async function digestOf(source: ShipSource, cut?: CutRule): Promise<Digest> {
  const whole = new RunningDigest()
  const parts: Digest[] = []
  let part = new RunningDigest()
  const partBytes = cut !== undefined && sizeOf(source) >= cut.fromBytes ? cut.partBytes : Infinity
  for await (const chunk of 'path' in source ? createReadStream(source.path) : [source.bytes]) {
    whole.update(chunk)
    if (partBytes === Infinity) continue
    for (let at = 0; at < chunk.length; ) {
      const piece = chunk.subarray(at, at + partBytes - part.bytes)
      part.update(piece)
      at += piece.length
      if (part.bytes < partBytes) continue
      parts.push(part.end())
      part = new RunningDigest()
    }
  }
  if (part.bytes > 0) parts.push(part.end())
  return parts.length === 0 ? whole.end() : { ...whole.end(), parts }
}

/** The hash of the hashes of the parts, as S3 makes it. */
export function joinedDigest(name: 'sha256' | 'md5', parts: readonly Digest[]): string {
  const joined = createHash(name)
  for (const part of parts) joined.update(part[name], 'hex')
  return joined.digest('hex')
}

class RunningDigest {
  bytes = 0
  readonly #sha256 = createHash('sha256')
  readonly #md5 = createHash('md5')

  update(chunk: Uint8Array): void {
    this.bytes += chunk.length
    this.#sha256.update(chunk)
    this.#md5.update(chunk)
  }

  end(): Digest {
    return { bytes: this.bytes, sha256: this.#sha256.digest('hex'), md5: this.#md5.digest('hex') }
  }
}

function sizeOf(source: ShipSource): number {
  return 'path' in source ? statSync(source.path).size : source.bytes.length
}

/** Copies to a directory. Never makes it: if its disk is not mounted, copies would fill the disk of the mount point. */
export class ShipDirectory implements ShipTarget {
  readonly name: string
  readonly #directory: string

  constructor(directory: string) {
    this.name = directory
    this.#directory = directory
  }

  async has(name: string, { bytes, sha256 }: Digest): Promise<boolean> {
    const path = join(this.#directory, name)
    try {
      return (await stat(path)).size === bytes && (await digestOf({ path })).sha256 === sha256
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
      throw error
    }
  }

  async put(name: string, source: ShipSource, digest: Digest, replaces: boolean): Promise<void> {
    const path = join(this.#directory, name)
    if (await this.has(name, digest)) return
    if (!replaces && existsSync(path)) throw new Error(`${path} is there already, with other bytes`)
    await stat(this.#directory)
    makeDirectory(dirname(path))
    const draft = `${path}.tmp`
    try {
      await rm(draft, { force: true })
      if ('path' in source) await copyFile(source.path, draft)
      else await writeFile(draft, source.bytes, { mode: OWNER_ONLY })
      await sync(draft)
      if ((await digestOf({ path: draft })).sha256 !== digest.sha256)
        throw new Error(`${draft} has other bytes`)
      await rename(draft, path)
    } catch (error) {
      await rm(draft, { force: true })
      throw error
    }
    syncDirectory(dirname(path))
  }
}

async function sync(path: string): Promise<void> {
  await using file = await open(path, 'r+')
  await file.sync()
}
