import { openSync, readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { crc32 } from 'node:zlib'
import { Slots, type Slotted } from '../edge/syntax/slots.ts'
import {
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
const NUMBER_CHARS = 10

/** Where the last record of a key is. */
export interface Journaled extends Slotted {
  readonly id: string
  segment: Segment | undefined
  at: number
  /** Length of its line and response. */
  bytes: number
}

/** A file of records, which is sealed with an encryption key of its own. */
export interface Segment {
  readonly file: string
  /** For reading. */
  readonly fd: number
  /** The name of the secret from which the encryption key is made. */
  readonly key: string
  /** Undefined: the secret is gone. */
  readonly seal: RecordSeal | undefined
  readonly live: Slots<Journaled>
  bytes: number
  /** True when the disk may lack its records: these are written again, into the newest segment. */
  isDoubtful: boolean
}

/** A segment as it was found, with its first and last time on the clock of its run. */
interface FoundSegment {
  readonly segment: Segment
  readonly firstMs: number
  readonly lastMs: number
}

/** Called for each record of an earlier run. @param head undefined: it is damaged, so that only the key is known */
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

interface Creating extends Pick<Reading, 'directory'> {
  readonly clock: () => number
}

/** Reads all segments, oldest first. @throws Error that names the file */
export function readSegments(reading: Reading, found: OnFound): FoundSegment[] {
  makeDirectory(reading.directory)
  return namesIn(readdirSync(reading.directory)).flatMap(
    (name) => readSegment(join(reading.directory, name), reading, found) ?? [],
  )
}

/**
 * Makes the file of a new segment, numbered behind all files there and behind the newest known one, which may have been removed.
 *
 * @returns also `header`, still to be written
 * @throws Error of the system
 */
export function createSegment(
  { directory, clock }: Creating,
  secret: KeySecret,
  newest: Segment | undefined,
) {
  const number =
    1 + Math.max(numberOf(namesIn(readdirSync(directory)).at(-1)), numberOf(newest && basename(newest.file)))
  const file = join(directory, `keys-${String(number).padStart(NUMBER_CHARS, '0')}.log`)
  const seal = secret.sealOf()
  const said = { key: secret.name, salt: seal.salt, atMs: clock() }
  const header = `${JSON.stringify({ format: FORMAT, version: VERSION, ...said, crc: crcOf(said) })}\n`
  const fd = openSync(file, 'ax', OWNER_ONLY)
  syncDirectory(directory)
  return { segment: openSegment(file, secret.name, seal), fd, header }
}

function openSegment(file: string, key: string, seal: RecordSeal | undefined): Segment {
  return { file, fd: openSync(file, 'r'), key, seal, live: new Slots(), bytes: 0, isDoubtful: false }
}

/** Names of segments, oldest first. */
export function namesIn(names: readonly string[]): string[] {
  return names.filter((name) => NAME.test(name)).sort()
}

function numberOf(name = ''): number {
  return Number(NAME.exec(name)?.[1] ?? 0)
}

/** Reads a segment. Removes a file without a whole first line, and returns undefined. @throws Error that names the file */
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

/** Checksum of a header: a wrong time would make every key of the file expire. */
function crcOf({ key, salt, atMs }: Header): number {
  return crc32(`${key} ${salt} ${atMs}`)
}

/** Reads the first line of a segment. @returns no seal when its secret is gone @throws Error that names the file */
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
