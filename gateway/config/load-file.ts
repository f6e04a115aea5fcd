import { isUtf8 } from 'node:buffer'
import { readFileSync, type Stats, statSync } from 'node:fs'
import { messageOf } from '../terminal/printable.ts'
import type { Fault, Parsed } from './faults.ts'

/** Protects the memory from a wrong file. */
const MAX_FILE_BYTES = 32 * 1024 * 1024
const REPLACEMENT = Buffer.from('\uFFFD')
/** Texts that may be a secret: several lines, `whsec_…`, PEM, or a long random word unlike a path. */
const LIKE_SECRET = /[\r\n]|^whsec_|^-----BEGIN|^(?=.*\d)[^./\\][^.\s]{23,}$/
export const LINE_END = /\r?\n$/
/** Matches, for example, `, open 'name'`. */
const NAME_AT_END = /, [a-z]+ '.*'$/s

/** Throws like `node:fs`. */
export type ReadFile = (file: string) => string

export type ParseFile<T> = (file: string, text: string) => Parsed<T>

export interface LoadedFile<T> {
  readonly text: string
  readonly value: T
}

interface LoadOptions {
  readonly readFile?: ReadFile | undefined
  /** The key or variable that names the file, for faults. */
  readonly namedBy?: string
}

/** An unreadable file is a fault. */
export function loadFile<T>(
  file: string,
  parse: ParseFile<T>,
  { readFile = readText, namedBy }: LoadOptions = {},
): Parsed<LoadedFile<T>> {
  let text: string
  try {
    text = readFile(file)
  } catch (error) {
    return { faults: [unreadable(file, error, namedBy)] }
  }
  const { value, faults } = parse(file, text)
  return faults === undefined ? { value: { text, value } } : { faults }
}

type LoadedText = { readonly text?: string | undefined; readonly reason?: string | undefined }

/** @param faultOf must not repeat the text */
export function loadText(
  file: string,
  faultOf: (text: string) => string | undefined,
  readFile?: ReadFile,
): LoadedText {
  const { value, faults } = loadFile(file, (_, text) => ({ value: text }), { readFile })
  if (faults !== undefined) return { reason: faults[0]?.reason }
  const reason = faultOf(value.text)
  return reason === undefined ? { text: value.text } : { reason }
}

/** The reason is a sentence about the key that names the file. */
export function namedText(file: string, readFile?: ReadFile): LoadedText {
  const { text, reason } = loadText(file, () => undefined, readFile)
  if (reason === undefined) return { text }
  return { reason: `names a file that is not usable: ${shownName(file)}: $: ${reason}` }
}

export function unreadable(file: string, error: unknown, namedBy?: string): Fault {
  const where = namedBy === undefined ? '' : `; the file is named by ${namedBy}`
  return { file: shownName(file), path: '$', reason: `cannot be read: ${whyUnreadable(error)}${where}` }
}

/** The message of an error, without the file name at its end. */
export function whyUnreadable(error: unknown): string {
  return messageOf(error).replace(NAME_AT_END, '')
}

/** The name of a file, cut if it looks like a secret, because somebody may have written the secret itself there. */
export function shownName(file: string): string {
  return LIKE_SECRET.test(file) ? `${file.slice(0, 4)}… (not shown whole: it may be a secret itself)` : file
}

export function checkSize(bytes: number | bigint): void {
  if (bytes > MAX_FILE_BYTES) throw new Error(`it has ${bytes} bytes, more than ${MAX_FILE_BYTES}`)
}

/** @throws Error for a large file, and for what may have no end, such as a pipe or a device */
function checkFile(stats: Stats): void {
  if (!stats.isFile()) throw new Error('it is not a regular file')
  checkSize(stats.size)
}

/** Does not check the encoding, because comments in PEM files may have any encoding. */
export function readLenient(file: string): string {
  checkFile(statSync(file))
  return readFileSync(file, 'utf8')
}

export function readPrivate(file: string): string {
  checkPrivate(statSync(file))
  return readLenient(file)
}

/** @throws Error when others can read or write the file */
export function checkPrivate({ mode, uid }: Pick<Stats, 'mode' | 'uid'>): void {
  // A secret that Kubernetes mounts belongs to root, and is readable by the group of the pod.
  const forbidden = uid === 0 ? 0o037 : 0o077
  if ((mode & forbidden) === 0) return
  const octal = (mode & 0o777).toString(8).padStart(4, '0')
  throw new Error(`its mode is ${octal}, so that others may use the secret in it: chmod 600`)
}

export function readText(file: string): string {
  checkFile(statSync(file))
  return utf8Text(readFileSync(file))
}

/** @throws Error that names the first invalid byte */
export function utf8Text(bytes: Buffer): string {
  const text = bytes.toString('utf8')
  if (isUtf8(bytes)) return text
  let offset = 0
  for (const character of text) {
    // The decoder replaces invalid bytes by U+FFFD, which may also stand in the file itself.
    if (character === '\uFFFD' && !bytes.subarray(offset, offset + 3).equals(REPLACEMENT)) break
    offset += Buffer.byteLength(character)
  }
  const line = bytes.subarray(0, offset).toString('latin1').split('\n').length
  const octet = bytes[offset]?.toString(16).toUpperCase().padStart(2, '0')
  throw new Error(`byte ${offset} (0x${octet}, in line ${line}) is not UTF-8`)
}
