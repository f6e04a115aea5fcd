import { closeSync, fsync, mkdirSync, openSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { discard, OWNER_ONLY, syncDirectory, WRITE_ANEW } from '../../storage/line-file.ts'
import { giveWay } from '../give-way.ts'

export type TileFile = { readonly name: string; readonly bytes: Buffer }
type Draft = { readonly fd: number; readonly path: string }

const MAX_DRAFTS = 64
const DRAFTS_AT_ONCE = 4
/** Parallel syncs share writes of the journal; two threads of the pool stay free while a disk stalls. */
const SYNCS_AT_ONCE = 2

/** Writes tiles atomically. They survive a power failure at once (`writeSynced`), or after a later sync (`write`). */
export class TileFiles {
  readonly directory: string
  #drafts = 0
  readonly #unsynced = new Set<string>()
  /** Directories whose own names are synced, or will be by the next `syncNames`. */
  readonly #named = new Set<string>()

  constructor(directory: string) {
    this.directory = directory
  }

  async writeSynced(files: readonly TileFile[]): Promise<void> {
    for (let at = 0; at < files.length; at += MAX_DRAFTS) {
      await this.#writeDrafts(files.slice(at, at + MAX_DRAFTS))
    }
    this.syncNames()
  }

  write(files: readonly TileFile[]): void {
    for (const { name, bytes } of files) {
      const path = join(this.directory, name)
      const fd = this.#openDraft(path)
      try {
        writeFileSync(fd, bytes)
      } catch (error) {
        discard(draftOf(path))
        throw error
      } finally {
        closeSync(fd)
      }
      renameSync(draftOf(path), path)
    }
  }

  addName(path: string): void {
    const directory = dirname(path)
    this.#unsynced.add(directory)
    // An earlier process may have ended before it synced the name of the directory.
    const above = dirname(this.directory)
    for (let at = directory; at !== above && !this.#named.has(at); at = dirname(at)) {
      this.#named.add(at)
      this.#unsynced.add(dirname(at))
    }
  }

  syncNames(): void {
    for (const directory of this.#unsynced) {
      // A removed directory must not make every call fail.
      this.#unsynced.delete(directory)
      try {
        syncDirectory(directory)
      } catch (error) {
        this.forget()
        throw error
      }
    }
  }

  /** @param directory undefined: any may have been removed */
  forget(directory?: string): void {
    if (directory === undefined) this.#named.clear()
    else this.#named.delete(directory)
  }

  #openDraft(path: string): number {
    if (this.#drafts++ % DRAFTS_AT_ONCE === 0) giveWay()
    try {
      return openSync(draftOf(path), WRITE_ANEW, OWNER_ONLY)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
      // The names of new directories are synced later (`addName`).
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
      return openSync(draftOf(path), WRITE_ANEW, OWNER_ONLY)
    }
  }

  async #writeDrafts(files: readonly TileFile[]): Promise<void> {
    const drafts: Draft[] = []
    try {
      for (const { name, bytes } of files) {
        const path = join(this.directory, name)
        const fd = this.#openDraft(path)
        drafts.push({ fd, path })
        writeFileSync(fd, bytes)
      }
      await syncAll(drafts)
    } catch (error) {
      for (const { path } of drafts) discard(draftOf(path))
      throw error
    } finally {
      for (const { fd } of drafts) closeSync(fd)
    }
    for (const { path } of drafts) {
      renameSync(draftOf(path), path)
      this.addName(path)
    }
  }
}

/** Rejects only once no sync is in progress. */
async function syncAll(drafts: readonly Draft[]): Promise<void> {
  const sync = promisify(fsync)
  const left = drafts.values()
  const inTurn = async () => {
    for (const { fd } of left) await sync(fd)
  }
  const ends = await Promise.allSettled(Array.from({ length: SYNCS_AT_ONCE }, inTurn))
  const failed = ends.find((end) => end.status === 'rejected')
  if (failed !== undefined) throw failed.reason
}

function draftOf(path: string): string {
  return `${path}.tmp`
}
