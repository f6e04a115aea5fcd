import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { basename, dirname, join } from 'node:path'
import type { TestContext } from 'node:test'

/** For tests only. */

type Change =
  | { readonly kind: 'write'; readonly at: number; readonly bytes: Buffer }
  | { readonly kind: 'cut'; readonly length: number }

interface Content {
  /** What a completed sync has covered. */
  readonly durable: Buffer
  /** Since then, in order. */
  readonly pending: readonly Change[]
}

/** Names in the directory, with the files that they name. */
type Names = ReadonlyMap<string, number>

/** What a power cut at one moment can leave. */
interface Moment {
  readonly files: ReadonlyMap<number, Content>
  /** As of the last sync of the directory, and after each change since then. */
  readonly names: readonly Names[]
  /** How many answers clients had seen. */
  readonly seen: number
}

/** Decides what of the changes that no sync has covered survives: an integer from 0 to below the bound. */
export type Chance = (bound: number) => number

const SECTOR_BYTES = 512

/**
 * A disk under `node:fs` that loses what no completed sync has covered. Files are real, and hold what the page cache would; the
 * disk keeps beside them what a power cut at each moment would leave. A failed `fdatasync` drops what it was to write, and a
 * later one does not write it either, as Linux does.
 */
export class PowerDisk {
  readonly #directory: string
  readonly #seen: () => number
  readonly #files = new Map<number, { durable: Buffer; pending: Change[] }>()
  readonly moments: Moment[] = []
  #names: Names[] = [new Map()]
  /** Answers the next syncs: how many turns of the event loop each takes, and whether it fails. */
  nextSync: () => { readonly turns: number; readonly fails: boolean } = () => ({ turns: 0, fails: false })

  /** @param seen how many answers clients have seen */
  constructor(t: TestContext, directory: string, seen: () => number) {
    this.#directory = directory
    this.#seen = seen
    this.#replaceSystem(t)
  }

  /** Something has happened outside the disk: an answer was seen. */
  note(): void {
    const files = new Map<number, Content>()
    for (const [inode, { durable, pending }] of this.#files) {
      files.set(inode, { durable, pending: [...pending] })
    }
    this.moments.push({ files, names: [...this.#names], seen: this.#seen() })
  }

  #replaceSystem(t: TestContext): void {
    const { openSync, writeSync, ftruncateSync, fdatasync, fdatasyncSync, fsyncSync, renameSync } = fs
    const inodeOf = (fd: number) => fs.fstatSync(fd).ino
    const directoryInode = fs.statSync(this.#directory).ino
    Object.assign(fs, {
      openSync: (path: string, flags: string | number, mode?: number) => {
        const isNew = dirname(path) === this.#directory && !fs.existsSync(path)
        const fd = openSync(path, flags, mode)
        if (isNew) this.#rename((names) => names.set(basename(path), inodeOf(fd)))
        return fd
      },
      renameSync: (from: string, to: string) => {
        renameSync(from, to)
        if (dirname(to) !== this.#directory) return
        this.#rename((names) => {
          names.set(basename(to), names.get(basename(from)) ?? 0)
          names.delete(basename(from))
        })
      },
      writeSync: (fd: number, data: Buffer | string, start = 0, length?: number, place?: number) => {
        const bytes =
          typeof data === 'string' ? Buffer.from(data) : data.subarray(start, start + (length ?? data.length))
        const at = place ?? fs.fstatSync(fd).size
        const count =
          place === undefined ? writeSync(fd, bytes) : writeSync(fd, bytes, 0, bytes.length, place)
        this.#change(inodeOf(fd), { kind: 'write', at, bytes: Buffer.from(bytes.subarray(0, count)) })
        return count
      },
      ftruncateSync: (fd: number, length: number) => {
        ftruncateSync(fd, length)
        this.#change(inodeOf(fd), { kind: 'cut', length })
      },
      fdatasync: (fd: number, done: (error: Error | null) => void) => {
        const { turns, fails } = this.nextSync()
        const inode = inodeOf(fd)
        const covered = new Set(this.#files.get(inode)?.pending)
        const wait = (left: number): void => {
          if (left > 0) setImmediate(wait, left - 1)
          else done(this.#sync(inode, covered, fails))
        }
        setImmediate(wait, turns)
      },
      fdatasyncSync: (fd: number) => {
        const inode = inodeOf(fd)
        const error = this.#sync(inode, new Set(this.#files.get(inode)?.pending), this.nextSync().fails)
        if (error !== null) throw error
      },
      fsyncSync: (fd: number) => {
        fsyncSync(fd)
        if (inodeOf(fd) !== directoryInode) return
        if (this.nextSync().fails) throw ioError()
        this.#names = this.#names.slice(-1)
        this.note()
      },
    })
    syncBuiltinESMExports()
    t.after(() => {
      Object.assign(fs, {
        openSync,
        writeSync,
        ftruncateSync,
        fdatasync,
        fdatasyncSync,
        fsyncSync,
        renameSync,
      })
      syncBuiltinESMExports()
    })
  }

  #rename(change: (names: Map<string, number>) => void): void {
    const names = new Map(this.#names.at(-1))
    change(names)
    this.#names = [...this.#names, names]
    this.note()
  }

  #change(inode: number, change: Change): void {
    let file = this.#files.get(inode)
    if (file === undefined) {
      file = { durable: Buffer.alloc(0), pending: [] }
      this.#files.set(inode, file)
    }
    file.pending.push(change)
    this.note()
  }

  #sync(inode: number, covered: ReadonlySet<Change>, fails: boolean): Error | null {
    const file = this.#files.get(inode)
    if (file !== undefined) {
      if (!fails)
        for (const change of file.pending)
          if (covered.has(change)) file.durable = changed(file.durable, change)
      // The length of the file is metadata, which a failed write of data does not undo.
      file.pending = file.pending.filter((change) => !covered.has(change) || (fails && change.kind === 'cut'))
      this.note()
    }
    return fails ? ioError() : null
  }
}

function ioError(): Error {
  return Object.assign(new Error('EIO: i/o error'), { code: 'EIO' })
}

interface Survivor {
  readonly name: string
  readonly inode: number
  readonly bytes: Buffer
}

/** The files that a power cut at that moment leaves. */
export function survivors({ files, names }: Moment, chance: Chance): readonly Survivor[] {
  const left = names[chance(names.length)] ?? new Map<string, number>()
  return [...left].map(([name, inode]) => {
    const content = files.get(inode) ?? { durable: Buffer.alloc(0), pending: [] }
    return { name, inode, bytes: contentAfter(content, chance) }
  })
}

/** Writes them into another directory. What the trail says of their inodes is made true there. */
export function writeSurvivors(directory: string, left: readonly Survivor[]): void {
  const inodes = new Map<string, number>()
  for (const { name, inode } of left) {
    fs.writeFileSync(join(directory, name), '')
    inodes.set(String(inode), fs.statSync(join(directory, name)).ino)
  }
  for (const { name, bytes } of left) {
    const renumber = (_: string, inode: string) => `"continues":"${inodes.get(inode)}"`
    const text = bytes.toString('latin1').replace(/"continues":"(\d+)"/g, renumber)
    fs.writeFileSync(join(directory, name), text, 'latin1')
  }
}

/** A prefix of the pending changes, the last of them in part; sectors that were not synced may be NULs. */
function contentAfter({ durable, pending }: Content, chance: Chance): Buffer {
  const whole = chance(pending.length + 1)
  let content = durable
  for (const change of pending.slice(0, whole)) content = changed(content, change)
  const next = pending[whole]
  if (next?.kind === 'write') {
    content = changed(content, { ...next, bytes: next.bytes.subarray(0, chance(next.bytes.length + 1)) })
  }
  if (chance(2) === 0) return content
  const torn = Buffer.from(content)
  const firstUnsynced = pending.reduce(
    (at, change) => Math.min(at, change.kind === 'write' ? change.at : at),
    torn.length,
  )
  for (
    let at = Math.ceil(firstUnsynced / SECTOR_BYTES) * SECTOR_BYTES;
    at < torn.length;
    at += SECTOR_BYTES
  ) {
    if (chance(3) === 0) torn.fill(0, at, Math.min(at + SECTOR_BYTES, torn.length))
  }
  return torn
}

function changed(content: Buffer, change: Change): Buffer {
  if (change.kind === 'cut') return content.subarray(0, change.length)
  const end = change.at + change.bytes.length
  const next = Buffer.alloc(Math.max(content.length, end))
  content.copy(next)
  change.bytes.copy(next, change.at)
  return next
}
