import { randomBytes } from 'node:crypto'
import { openSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { basename, join } from 'node:path'
import { makeDirectory, NewerFormatError, OWNER_ONLY, syncDirectory } from '../storage/line-file.ts'
import { type KeyRecord, readKeyHead } from './key-record.ts'
import { type KeySecret, type RecordSeal, SALT_BYTES } from './key-secret.ts'

const FORMAT = 'idempotency-keys'
const VERSION = 1
const NAME = /^keys-([0-9]{10})\.log$/
const NUMBER_CHARS = 10
const NEWLINE = 0x0a

/** Where the last record of a key is. */
export interface Journaled {
  readonly id: string
  segment: Segment | undefined
  at: number
  bytes: number
}

/** A file of records, under a key of its own. */
export interface Segment {
  readonly file: string
  /** For reading. */
  readonly fd: number
  readonly seal: RecordSeal
  readonly live: Set<Journaled>
  bytes: number
  /** The disk may not have its records: they are written again, into the newest segment. */
  isDoubtful: boolean
}

/** A segment as it was found, with its first and last time on the clock of its run. */
interface FoundSegment {
  readonly segment: Segment
  readonly firstMs: number
  readonly lastMs: number
}

/** One record of an earlier run. @param head undefined: damaged, so that nothing but its key is known */
export type OnFound = (
  id: string,
  head: Omit<KeyRecord, 'response'> | undefined,
  place: Omit<Journaled, 'id'>,
) => void

interface Reading {
  readonly directory: string
  readonly secret: KeySecret
  readonly onFault: (cause: string) => void
}

/** Reads all segments, oldest first. @throws Error that names the file */
export function readSegments(reading: Reading, found: OnFound): FoundSegment[] {
  makeDirectory(reading.directory)
  return namesIn(readdirSync(reading.directory)).flatMap(
    (name) => readSegment(join(reading.directory, name), reading, found) ?? [],
  )
}

/**
 * Makes the file of a new segment, behind all that are there and the newest one that is known, which may have been removed.
 *
 * @returns where `header` is still to be written
 * @throws Error of the system
 */
export function createSegment(
  { directory, secret, clock }: Pick<Reading, 'directory' | 'secret'> & { readonly clock: () => number },
  newest: Segment | undefined,
) {
  const number =
    1 + Math.max(numberOf(namesIn(readdirSync(directory)).at(-1)), numberOf(newest && basename(newest.file)))
  const file = join(directory, `keys-${String(number).padStart(NUMBER_CHARS, '0')}.log`)
  const salt = randomBytes(SALT_BYTES)
  const atMs = clock()
  const names = { salt: salt.toString('base64url'), check: secret.nameOf('check', salt, String(atMs)) }
  const header = `${JSON.stringify({ format: FORMAT, version: VERSION, ...names, atMs })}\n`
  const fd = openSync(file, 'ax', OWNER_ONLY)
  syncDirectory(directory)
  return { segment: openSegment(file, secret.sealOf(salt), 0), fd, header }
}

function openSegment(file: string, seal: RecordSeal, bytes: number): Segment {
  return { file, fd: openSync(file, 'r'), seal, live: new Set(), bytes, isDoubtful: false }
}

/** Names of segments, oldest first. */
export function namesIn(names: readonly string[]): string[] {
  return names.filter((name) => NAME.test(name)).sort()
}

function numberOf(name = ''): number {
  return Number(NAME.exec(name)?.[1] ?? 0)
}

/** @returns undefined for a segment that was not begun @throws Error that names the file */
function readSegment(file: string, { secret, onFault }: Reading, found: OnFound): FoundSegment | undefined {
  const text = readFileSync(file)
  let at = text.indexOf(NEWLINE) + 1
  if (at === 0) {
    rmSync(file)
    return undefined
  }
  const { salt, atMs } = headerOf(file, text.toString('latin1', 0, at), secret)
  const segment = openSegment(file, secret.sealOf(salt), text.length)
  let lastMs = atMs
  let damaged = 0
  for (let end = text.indexOf(NEWLINE, at); end !== -1; end = text.indexOf(NEWLINE, at)) {
    const bytes = end + 1 - at
    const read = readKeyHead(text.subarray(at, end))
    if (read?.head === undefined && bytes > 1) damaged += 1
    if (read?.head !== undefined) lastMs = Math.max(lastMs, read.head.atMs)
    if (read !== undefined) found(read.id, read.head, { segment, at, bytes })
    at += bytes
  }
  if (damaged > 0) onFault(`${file}: ${damaged} line(s) are damaged: the outcome of their keys is unknown`)
  if (at < text.length) onFault(`${file}: the last line was cut off and is left out`)
  return { segment, firstMs: atMs, lastMs }
}

/** @throws Error that names the file */
export function headerOf(file: string, line: string, secret: KeySecret) {
  let header: { format?: unknown; version?: unknown; salt?: unknown; check?: unknown; atMs?: unknown }
  try {
    header = JSON.parse(line)
  } catch {
    header = {}
  }
  const { format, version, check, atMs } = header
  if (format !== FORMAT)
    throw new Error(`${file} is no file of idempotency keys, or its first line is damaged`)
  if (Number(version) > VERSION)
    throw new NewerFormatError(`${file} was written by a newer version of the gateway`)
  const salt = Buffer.from(String(header.salt), 'base64url')
  if (secret.nameOf('check', salt, String(atMs)) !== check)
    throw new Error(
      `${file} was written with another "idempotencyKeyFile", or its first line is damaged: bring the right one back, or move the directory away, which forgets every key`,
    )
  return { salt, atMs: Number(atMs) }
}
