import {
  appendFileSync,
  closeSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import { dirname } from 'node:path'

/** What the lines of one kind of file look like, and what they are called when something is wrong with them. */
export interface KeyForm {
  /** Member that holds the key, such as `sid`. */
  readonly key: string
  /** Member that holds the time, such as `revokedAtMs`: epoch milliseconds. */
  readonly time: string
  /** Whether a text can be a key. */
  readonly accepts: (value: unknown) => value is string
  /** What the lines are, in the plural: `revocations`. */
  readonly lines: string
  /** What the file tells of, in the plural: `revoked sessions`. */
  readonly contents: string
}

/** One line of the file. */
export interface RememberedKey {
  readonly key: string
  /** Epoch milliseconds. */
  readonly atMs: number
}

export interface KeysReading {
  /** In the order of the file. */
  readonly keys: readonly RememberedKey[]
  /** What was left out, in words. */
  readonly faults: readonly string[]
  /** Whether the file ends in the middle of a line. */
  readonly torn: boolean
}

// Neither sessions nor messages are secrets as tokens are, but nobody else has to know them.
const OWNER_ONLY = 0o600

/** `{"sid":"…","revokedAtMs":1763692800000}` and a line feed. */
export function formatKey(form: KeyForm, { key, atMs }: RememberedKey): string {
  return `${JSON.stringify({ [form.key]: key, [form.time]: atMs })}\n`
}

/**
 * Reads a file of keys; none when there is no file. A last line that was cut off by a crash and lines that hold no key
 * are left out and reported, one fault for each kind.
 *
 * @throws Error when there is a file that cannot be read
 */
export function readKeys(form: KeyForm, file: string): KeysReading {
  const lines = readText(form, file).split('\n')
  const last = lines.pop()
  const torn = last !== undefined && last !== ''
  const faults = torn ? ['the last line was cut off and is left out'] : []
  const keys: RememberedKey[] = []
  const unreadable: number[] = []
  for (const [index, line] of lines.entries()) {
    if (line === '') continue
    const key = parseKey(form, line)
    if (key === undefined) unreadable.push(index + 1)
    else keys.push(key)
  }
  if (unreadable.length > 0) {
    faults.push(
      `${unreadable.length} line(s) that are no ${form.lines} are left out, the first is line ${unreadable[0]}`,
    )
  }
  return { keys, faults, torn }
}

/**
 * Appends to the file, making it when it is not there; handed to the operating system when this returns. It is opened
 * each time: a file that was moved away or a disk that came back needs nothing special.
 *
 * @throws Error when not all of it was written; part of it may have been
 */
export function appendLines(file: string, text: string): void {
  appendFileSync(file, text, { mode: OWNER_ONLY })
}

/**
 * Puts a new file in the place of the old one, whole or not at all, also when the power fails.
 *
 * @throws Error when it could not; the old file is untouched
 */
export function replaceFile(file: string, text: string): void {
  const temporary = `${file}.tmp`
  writeFileSync(temporary, text, { mode: OWNER_ONLY, flush: true })
  renameSync(temporary, file)
  const directory = openSync(dirname(file), 'r')
  try {
    fsyncSync(directory)
  } finally {
    closeSync(directory)
  }
}

function readText(form: KeyForm, file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''
    throw new Error(`${file}: ${form.contents} cannot be read: ${String(error)}`, { cause: error })
  }
}

function parseKey(form: KeyForm, line: string): RememberedKey | undefined {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    return undefined
  }
  const { [form.key]: key, [form.time]: atMs } = (value ?? {}) as Record<string, unknown>
  return form.accepts(key) && Number.isFinite(atMs) ? { key, atMs: Number(atMs) } : undefined
}
