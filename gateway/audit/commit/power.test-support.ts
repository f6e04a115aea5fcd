import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { basename, dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import { type Change, type Content, changed, type Moment, type Names } from './survivors.test-support.ts'

const PATCHED = [
  'openSync',
  'closeSync',
  'linkSync',
  'renameSync',
  'mkdirSync',
  'rmSync',
  'unlinkSync',
  'writeSync',
  'writeFileSync',
  'ftruncateSync',
  'fdatasync',
  'fsync',
  'fdatasyncSync',
  'fsyncSync',
] as const

/**
 * A disk under `node:fs` that loses what no completed sync has covered. Files are real, and hold what the page cache
 * would; the disk keeps beside them what a power cut at each moment would leave. As on Linux, a failed sync drops what
 * it was to write, no later sync writes that, and each open descriptor reports the failure once.
 */
export class PowerDisk {
  readonly #seen: () => number
  readonly #files = new Map<number, { durable: Buffer; pending: Change[] }>()
  readonly #directories = new Map<number, Names[]>()
  readonly #root: number
  /** Has a second name of each file, so that no inode is used twice. */
  readonly inodes: string
  readonly moments: Moment[] = []
  /** Inodes of what is open. */
  readonly #open = new Map<number, number>()
  /** Descriptors that will report an error that another descriptor has reported. */
  readonly #failed = new Set<number>()
  readonly #system = Object.fromEntries(PATCHED.map((name) => [name, fs[name]])) as Pick<
    typeof fs,
    (typeof PATCHED)[number]
  >
  /** Answers the next syncs: how many turns of the event loop each takes, and whether it fails. */
  nextSync: () => { readonly turns: number; readonly fails: boolean } = () => ({ turns: 0, fails: false })

  /** @param seen how many answers clients have seen */
  constructor(t: Pick<TestContext, 'after'>, directory: string, seen: () => number = () => 0) {
    this.#seen = seen
    this.#root = fs.statSync(directory).ino
    this.#directories.set(this.#root, [new Map()])
    this.inodes = `${directory}.inodes`
    fs.mkdirSync(this.inodes)
    this.#replaceSystem()
    t.after(() => this.putBack())
  }

  putBack(): void {
    Object.assign(fs, this.#system)
    syncBuiltinESMExports()
  }

  /** To be called when something has happened outside the disk, such as an answer that was seen. */
  note(): void {
    const files = new Map<number, Content>()
    for (const [inode, { durable, pending }] of this.#files) {
      files.set(inode, { durable, pending: [...pending] })
    }
    const directories = new Map([...this.#directories].map(([inode, names]) => [inode, [...names]]))
    this.moments.push({ files, directories, root: this.#root, seen: this.#seen() })
  }

  #replaceSystem(): void {
    const system = this.#system
    const inodeOf = (fd: number) => fs.fstatSync(fd).ino
    const write = (fd: number, bytes: Buffer, place: number | null) => {
      const at = place ?? fs.fstatSync(fd).size
      const count = system.writeSync(fd, bytes, 0, bytes.length, place)
      this.#change(inodeOf(fd), { kind: 'write', at, bytes: Buffer.from(bytes.subarray(0, count)) })
      return count
    }
    const syncLater = (fd: number, done: (error: Error | null) => void) => {
      const { turns, fails } = this.nextSync()
      const inode = inodeOf(fd)
      const covered = new Set(this.#files.get(inode)?.pending)
      const wait = (left: number): void => {
        if (left > 0) setImmediate(wait, left - 1)
        else done(this.#sync({ fd, inode }, covered, fails))
      }
      setImmediate(wait, turns)
    }
    Object.assign(fs, {
      openSync: (path: string, flags: string | number, mode?: number) => {
        const isNew = !fs.existsSync(path)
        const fd = system.openSync(path, flags, mode)
        const inode = inodeOf(fd)
        if (isNew && this.#namesBeside(path) !== undefined) {
          system.linkSync(path, join(this.inodes, String(inode)))
          this.#rename(path, inode)
        } else if (flags === 'w') this.#change(inode, { kind: 'cut', length: 0 })
        this.#open.set(fd, inode)
        // Streams are closed without `closeSync`.
        this.#failed.delete(fd)
        return fd
      },
      closeSync: (fd: number) => {
        this.#open.delete(fd)
        system.closeSync(fd)
      },
      linkSync: (from: string, to: string) => this.#link(from, to),
      renameSync: (from: string, to: string) => this.#move(from, to),
      mkdirSync: (path: string, options?: { readonly recursive?: boolean } | number) => {
        const made: string[] = []
        for (let at = path; !fs.existsSync(at); at = dirname(at)) made.unshift(at)
        const first = system.mkdirSync(path, options)
        for (const one of made) {
          if (this.#namesBeside(one) === undefined) continue
          this.#directories.set(fs.statSync(one).ino, [new Map()])
          this.#rename(one, fs.statSync(one).ino)
        }
        return first
      },
      rmSync: (path: string, options?: fs.RmOptions) => this.#remove(path, options),
      unlinkSync: (path: string) => this.#unlink(path),
      writeSync: (fd: number, data: Buffer | string, start = 0, length?: number, place?: number) => {
        const bytes =
          typeof data === 'string' ? Buffer.from(data) : data.subarray(start, start + (length ?? data.length))
        return write(fd, bytes, place ?? null)
      },
      writeFileSync: (file: number | string, data: string | Uint8Array, options?: fs.WriteFileOptions) => {
        if (typeof file === 'number') write(file, Buffer.from(data as string), null)
        else system.writeFileSync(file, data, options)
      },
      ftruncateSync: (fd: number, length: number) => {
        system.ftruncateSync(fd, length)
        this.#change(inodeOf(fd), { kind: 'cut', length })
      },
      fdatasync: syncLater,
      fsync: syncLater,
      fdatasyncSync: (fd: number) => this.#syncNow(fd),
      fsyncSync: (fd: number) => this.#syncNow(fd),
    })
    syncBuiltinESMExports()
  }

  #link(from: string, to: string): void {
    this.#system.linkSync(from, to)
    this.#rename(to, fs.statSync(to).ino)
  }

  #move(from: string, to: string): void {
    const { ino } = fs.statSync(from)
    this.#system.renameSync(from, to)
    this.#rename(to, ino, from)
  }

  #unlink(path: string): void {
    this.#system.unlinkSync(path)
    this.#rename(path, undefined)
  }

  /** Moves a directory away, so that its inode is not used again. */
  #remove(path: string, options?: fs.RmOptions): void {
    const inode = fs.statSync(path, { throwIfNoEntry: false })?.ino ?? -1
    if (this.#directories.has(inode)) this.#system.renameSync(path, join(this.inodes, `${inode}.removed`))
    else this.#system.rmSync(path, options)
    this.#rename(path, undefined)
  }

  #namesBeside(path: string): Names[] | undefined {
    return this.#directories.get(fs.statSync(dirname(path), { throwIfNoEntry: false })?.ino ?? -1)
  }

  /** @param inode undefined: the name is removed. @param before an earlier name in the same directory. */
  #rename(path: string, inode: number | undefined, before = path): void {
    const states = this.#namesBeside(path)
    if (states === undefined) return
    const names = new Map(states.at(-1))
    names.delete(basename(before))
    if (inode !== undefined) names.set(basename(path), inode)
    states.push(names)
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

  #syncNow(fd: number): void {
    const { ino } = fs.fstatSync(fd)
    const { fails } = this.nextSync()
    const names = this.#directories.get(ino)
    const error =
      names === undefined
        ? this.#sync({ fd, inode: ino }, new Set(this.#files.get(ino)?.pending), fails)
        : fails && ioError()
    if (error) throw error
    names?.splice(0, names.length - 1)
    this.note()
  }

  #sync(
    { fd, inode }: { readonly fd: number; readonly inode: number },
    covered: ReadonlySet<Change>,
    fails: boolean,
  ): Error | null {
    const file = this.#files.get(inode)
    if (file !== undefined) {
      if (!fails)
        for (const change of file.pending)
          if (covered.has(change)) file.durable = changed(file.durable, change)
      // The length of the file is metadata, which a failed write of data does not undo.
      file.pending = file.pending.filter((change) => !covered.has(change) || (fails && change.kind === 'cut'))
      this.note()
    }
    if (fails) for (const [other, named] of this.#open) if (named === inode) this.#failed.add(other)
    return this.#failed.delete(fd) || fails ? ioError() : null
  }
}

/** Until the test ends, nothing waits for the real disk. */
export function withoutSyncs(t: TestContext): void {
  const { fdatasyncSync, fsync, fsyncSync } = fs
  const put = (functions: object) => {
    Object.assign(fs, functions)
    syncBuiltinESMExports()
  }
  const done = (_fd: number, call: fs.NoParamCallback) => setImmediate(call, null)
  put({ fdatasyncSync: () => {}, fsync: done, fsyncSync: () => {} })
  t.after(() => put({ fdatasyncSync, fsync, fsyncSync }))
}

function ioError(): Error {
  return Object.assign(new Error('EIO: i/o error'), { code: 'EIO' })
}
