import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { crc32 } from 'node:zlib'
import { Slots, type Slotted } from '../edge/syntax/slots.ts'
import {
  discard,
  makeDirectory,
  NewerFormatError,
  OWNER_ONLY,
  removeFile,
  syncDirectory,
} from '../storage/line-file.ts'
import { bytesOnDisk, isSealedLine, type KeyRecord, NEWLINE, readKeyHead } from './key-record.ts'
import { type KeySecret, type KeySecrets, type RecordSeal, secretNamed } from './key-secret.ts'

const FORMAT = 'idempotency-keys'
const VERSION = 1
const NAME = /^keys-([0-9]{10})\.log$/

export interface Journaled extends Slotted {
  readonly id: string
  segment: Segment | undefined
  at: number
  /** Includes the response. */
  bytes: number
}

export interface Segment {
  readonly file: string
  /** Open for reading. */
  readonly fd: number
  /** The name of the secret that derives the encryption key. */
  readonly key: string
  /** Undefined if the secret is gone. */
  readonly seal: RecordSeal | undefined
  readonly live: Slots<Journaled>
  bytes: number
  /** True when the disk may lack records, which are then written again into the newest segment. */
  isDoubtful: boolean
}

/** Times are on the clock of the segment's run. */
interface FoundSegment {
  readonly segment: Segment
  readonly firstMs: number
  readonly lastMs: number
}

/** Called for each record of earlier runs. @param head undefined in a damaged record, of which only the key is known */
export type OnFound = (
  id: string,
  head: Omit<KeyRecord, 'response'> | undefined,
  place: Omit<Journaled, 'id' | 'slot'>,
) => void

interface Reading {
  readonly directory: string
  readonly secrets: KeySecrets
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
 * Makes a segment. Its number is above the numbers of all files and of `newest`, whose file may have been removed.
 *
 * @returns also `header`, still to be written
 * @throws Error of the system
 */
export function createSegment(
  { directory, clock }: { readonly directory: string; readonly clock: () => number },
  secret: KeySecret,
  newest: Segment | undefined,
) {
  const number =
    1 + Math.max(numberOf(namesIn(readdirSync(directory)).at(-1)), numberOf(newest && basename(newest.file)))
  const file = join(directory, `keys-${String(number).padStart(10, '0')}.log`)
  const seal = secret.sealOf()
  const said = { key: secret.name, salt: seal.salt, atMs: clock() }
  const header = `${JSON.stringify({ format: FORMAT, version: VERSION, ...said, crc: crcOf(said) })}\n`
  const fd = openSync(file, 'ax', OWNER_ONLY)
  try {
    syncDirectory(directory)
    return { segment: openSegment(file, secret.name, seal), fd, header }
  } catch (error) {
    closeSync(fd)
    discard(file)
    throw error
  }
}

function openSegment(file: string, key: string, seal: RecordSeal | undefined): Segment {
  return { file, fd: openSync(file, 'r'), key, seal, live: new Slots(), bytes: 0, isDoubtful: false }
}

export function namesIn(names: readonly string[]): string[] {
  return names.filter((name) => NAME.test(name)).sort()
}

function numberOf(name = ''): number {
  return Number(NAME.exec(name)?.[1] ?? 0)
}

/** Reads a segment. Removes a file without a whole first line. @throws Error that names the file */
function readSegment(file: string, { secrets, onFault }: Reading, found: OnFound): FoundSegment | undefined {
  const text = readFileSync(file)
  let at = text.indexOf(NEWLINE) + 1
  if (at === 0) {
    removeFile(file)
    return undefined
  }
  const { key, atMs, seal } = headerOf(file, text.toString('latin1', 0, at), secrets)
  const segment = openSegment(file, key, seal)
  segment.bytes = text.length
  let lastMs = atMs
  let damaged = 0
  for (let end = text.indexOf(NEWLINE, at); end !== -1; end = text.indexOf(NEWLINE, at)) {
    const bytes = end + 1 - at
    const line = text.subarray(at, end)
    const read = readKeyHead(line)
    if (read?.head === undefined && bytes > 1 && !isSealedLine(line)) damaged += 1
    if (read?.head !== undefined) lastMs = Math.max(lastMs, read.head.atMs)
    const taken = read?.span === undefined ? bytes : bytesOnDisk(bytes, read.span)
    if (read !== undefined) found(read.id, read.head, { segment, at, bytes: taken })
    at += bytes
  }
  if (damaged > 0) onFault(`${file}: ${damaged} line(s) are damaged: the outcome of their keys is unknown`)
  if (at < text.length) onFault(`${file}: the last line was cut off and is left out`)
  return { segment, firstMs: atMs, lastMs }
}

interface Header {
  readonly key: string
  readonly salt: string
  /** Epoch milliseconds. */
  readonly atMs: number
}

function crcOf({ key, salt, atMs }: Header): number {
  return crc32(`${key} ${salt} ${atMs}`)
}

/** @returns no seal when the file's secret is gone @throws Error that names the file */
export function headerOf(file: string, line: string, secrets: KeySecrets) {
  let header: Header & { readonly format?: unknown; readonly version?: unknown; readonly crc?: unknown }
  try {
    header = { ...JSON.parse(line) }
  } catch {
    header = { key: '', salt: '', atMs: 0 }
  }
  if (Number(header.version) > VERSION)
    throw new NewerFormatError(`${file} was written by a newer version of the gateway`)
  if (header.format !== FORMAT || crcOf(header) !== header.crc)
    throw new Error(`${file} is no file of idempotency keys, or its first line is damaged`)
  const { key, salt, atMs } = header
  return { key, atMs, seal: secretNamed(secrets, key)?.sealOf(salt) }
}
