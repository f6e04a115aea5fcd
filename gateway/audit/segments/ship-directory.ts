import { copyFile, open, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { makeDirectory, OWNER_ONLY, syncDirectory } from '../../storage/line-file.ts'
import { type Digest, digestOf, type ShipSource, type ShipTarget } from './ship-target.ts'

/** Copies to a directory, which as a rule is another mount. It must be there: an empty mount point would be filled otherwise. */
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
    if (!replaces && (await exists(path))) throw new Error(`${path} is there already, with other bytes`)
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

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined
}

async function sync(path: string): Promise<void> {
  const file = await open(path, 'r+')
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}
