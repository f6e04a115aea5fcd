import { type FileFormat, readLines } from './line-file.ts'

/** The format of one kind of file, and the words for it in messages. */
export interface KeyForm {
  /** Name of the member with the key, such as `sid`. */
  readonly key: string
  /** Name of the member with the time in epoch milliseconds, such as `revokedAtMs`. */
  readonly time: string
  /** Whether a value is a valid key. */
  readonly accepts: (value: unknown) => value is string
  /** Plural noun for the lines: `revocations`. */
  readonly lines: string
  /** Plural noun for the contents: `revoked sessions`. */
  readonly contents: string
}

/** One line of the file. */
export interface RememberedKey {
  readonly key: string
  /** Epoch milliseconds. */
  readonly atMs: number
}

interface KeysReading {
  /** In the order of the file. */
  readonly keys: readonly RememberedKey[]
  /** What was skipped, as messages. */
  readonly faults: readonly string[]
  /** The file ends in a partial line. */
  readonly isTorn: boolean
}

/** `{"sid":"…","revokedAtMs":1763692800000}` and a line feed. */
export function formatKey(form: KeyForm, { key, atMs }: RememberedKey): string {
  return `${JSON.stringify({ [form.key]: key, [form.time]: atMs })}\n`
}

/**
 * Reads a file of keys; a missing file has none. A partial last line and lines without a valid key are skipped and
 * reported, one fault for each kind.
 *
 * @throws Error when the file exists but cannot be read, or a newer gateway wrote it.
 */
export function readKeys(form: KeyForm, file: string, format: FileFormat): KeysReading {
  const { lines, firstLine, isTorn } = linesOf(form, file, format)
  if (isTorn) lines.pop()
  const faults = isTorn ? ['the last line was cut off and is left out'] : []
  const keys: RememberedKey[] = []
  const unreadable: number[] = []
  for (const [index, line] of lines.entries()) {
    if (line === '') continue
    const key = parseKey(form, line)
    if (key === undefined) unreadable.push(firstLine + index)
    else keys.push(key)
  }
  if (unreadable.length > 0) {
    faults.push(
      `${unreadable.length} line(s) that are no ${form.lines} are left out, the first is line ${unreadable[0]}`,
    )
  }
  return { keys, faults, isTorn }
}

function linesOf(form: KeyForm, file: string, format: FileFormat): ReturnType<typeof readLines> {
  try {
    return readLines(file, format)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { lines: [], firstLine: 1, isTorn: false }
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
