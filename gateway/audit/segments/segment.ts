import { basename } from 'node:path'

/** Only `none`, `zstd` and `gzip` can be read. */
type Compression = 'none' | 'zstd' | 'gzip' | 'bzip2' | 'xz'

/** A file of the trail: the open one, or one that a rotation has closed. */
export interface Segment {
  readonly path: string
  readonly compression: Compression
  readonly sizeBytes: number
  /** AUDIT_START names it in `continues`. Compression changes it. */
  readonly inode: string
  /** Says that the file has another name too, or is reached by a link. */
  readonly remark?: string | undefined
}

/** Position of a name in its family. A higher rank is later. */
export type NamePlace = { readonly family: 'stamped' | 'dated' | 'numbered'; readonly rank: string }

const COMPRESSIONS: ReadonlyMap<string | undefined, Compression> = new Map([
  ['zst', 'zstd'],
  ['gz', 'gzip'],
  ['bz2', 'bzip2'],
  ['xz', 'xz'],
])
const COMPRESSED = /\.(zst|gz|bz2|xz)$/

/** `.20261122T151602123Z`: a rotation of ours. */
const STAMPED = /\.(\d{8}T\d{9}Z)$/
/** `-20261122`, `-20261122-15`, `-1795360562`: logrotate with `dateext`. */
const DATED = /-(\d{8,}(?:[-_.T]\d+)*)$/
/** `.1`, `.2`: logrotate, whose lowest number is the latest. */
const NUMBERED = /\.(\d{1,9})$/
const LAST_YEAR_MS = Date.UTC(9999, 0)
const MAX_NUMBER = 999_999_999

export function compressionOf(path: string): Compression {
  return COMPRESSIONS.get(COMPRESSED.exec(path)?.[1]) ?? 'none'
}

export function plainPath(path: string): string {
  return path.replace(COMPRESSED, '')
}

export function stampedPath(auditFile: string, nowMs: number): string {
  return `${auditFile}.${new Date(nowMs).toISOString().replace(/[-:.]/g, '')}`
}

/** Time at which the gateway closed this segment; undefined for a name by others or in another trail. */
export function stampOf(auditFile: string, name: string): number | undefined {
  const plain = plainPath(name)
  const digits = STAMPED.exec(plain)?.[1]
  if (digits === undefined || plain !== `${basename(auditFile)}.${digits}`) return undefined
  const iso = digits.replace(/^(....)(..)(..T..)(..)(..)(...Z)$/, '$1-$2-$3:$4:$5.$6')
  const ms = Date.parse(iso)
  // After a name in the year 9999, the next name might need a year of five digits.
  return ms < LAST_YEAR_MS ? ms : undefined
}

/** Undefined for the open segment, and for names that an operator chose. */
export function placeOf(path: string): NamePlace | undefined {
  const name = basename(plainPath(path))
  const stamp = STAMPED.exec(name)?.[1]
  if (stamp !== undefined) return { family: 'stamped', rank: stamp }
  const number = NUMBERED.exec(name)?.[1]
  if (number !== undefined)
    return { family: 'numbered', rank: `${MAX_NUMBER - Number(number)}`.padStart(9, '0') }
  const date = DATED.exec(name)?.[1]
  return date === undefined ? undefined : { family: 'dated', rank: date }
}
