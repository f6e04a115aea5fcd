import { linkSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** A write to a file, or a cut of its end. */
export type Change =
  | { readonly kind: 'write'; readonly at: number; readonly bytes: Buffer }
  | { readonly kind: 'cut'; readonly length: number }

/** What the disk has of a file. */
export interface Content {
  /** What a completed sync has covered. */
  readonly durable: Buffer
  /** Changes since then, in order. */
  readonly pending: readonly Change[]
}

/** Names in a directory, with the inodes that they name. */
export type Names = ReadonlyMap<string, number>

/** What a power cut at one moment can leave. */
export interface Moment {
  readonly files: ReadonlyMap<number, Content>
  /** Names by the inode of their directory: as of its last sync, and after each change since then. */
  readonly directories: ReadonlyMap<number, readonly Names[]>
  readonly root: number
  /** How many answers clients had seen. */
  readonly seen: number
}

/** Decides which unsynced changes survive. Gives an integer of at least 0, below the bound. */
export type Chance = (bound: number) => number

const SECTOR_BYTES = 512

interface Survivor {
  /** From the root on. */
  readonly path: string
  readonly inode: number
  readonly bytes: Buffer
}

/** The files that a power cut at that moment leaves. */
export function survivors(moment: Moment, chance: Chance, root = moment.root, above = ''): Survivor[] {
  const states = moment.directories.get(root) ?? []
  const left = states[chance(states.length)] ?? new Map<string, number>()
  return [...left].flatMap(([name, inode]) => {
    const path = join(above, name)
    if (moment.directories.has(inode)) return survivors(moment, chance, inode, path)
    const content = moment.files.get(inode) ?? { durable: Buffer.alloc(0), pending: [] }
    return [{ path, inode, bytes: contentAfter(content, chance) }]
  })
}

/** Writes survivors into another directory, with the inodes that they had. This overwrites an earlier image. */
export function writeSurvivors(directory: string, left: readonly Survivor[], inodes: string): void {
  for (const { path, inode, bytes } of left) {
    const file = join(directory, path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(join(inodes, String(inode)), bytes)
    linkSync(join(inodes, String(inode)), file)
  }
}

/** Applies the first pending changes, the last of them in part; sectors that were not synced may be NULs. */
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
  const kept = pending.reduce(
    (length, change) => (change.kind === 'cut' ? Math.min(length, change.length) : length),
    durable.length,
  )
  const firstUnsynced = pending.reduce(
    (at, change) => Math.min(at, change.kind === 'write' ? Math.max(change.at, kept) : at),
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

export function changed(content: Buffer, change: Change): Buffer {
  if (change.kind === 'cut') return content.subarray(0, change.length)
  const end = change.at + change.bytes.length
  const next = Buffer.alloc(Math.max(content.length, end))
  content.copy(next)
  change.bytes.copy(next, change.at)
  return next
}
