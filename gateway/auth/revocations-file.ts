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
import { isVisibleId } from './visible-id.ts'

/** One line of the file. */
export interface Revocation {
  readonly sid: string
  /** Epoch milliseconds. */
  readonly revokedAtMs: number
}

export interface RevocationsReading {
  /** In the order of the file. */
  readonly revocations: readonly Revocation[]
  /** What was left out, in words. */
  readonly faults: readonly string[]
  /** Whether the file ends in the middle of a line. */
  readonly torn: boolean
}

// Sessions are not secrets as tokens are, but nobody else has to know them.
const OWNER_ONLY = 0o600

/** `{"sid":"…","revokedAtMs":1763692800000}` and a line feed. */
export function formatRevocation(sid: string, revokedAtMs: number): string {
  return `${JSON.stringify({ sid, revokedAtMs })}\n`
}

/**
 * Reads a file of revocations; none when there is no file. A last line that was cut off by a crash and lines that are
 * no revocations are left out and reported, one fault for each kind.
 *
 * @throws Error when there is a file that cannot be read
 */
export function readRevocations(file: string): RevocationsReading {
  const lines = readText(file).split('\n')
  const last = lines.pop()
  const torn = last !== undefined && last !== ''
  const faults = torn ? ['the last line was cut off and is left out'] : []
  const revocations: Revocation[] = []
  const unreadable: number[] = []
  for (const [index, line] of lines.entries()) {
    if (line === '') continue
    const revocation = parseRevocation(line)
    if (revocation === undefined) unreadable.push(index + 1)
    else revocations.push(revocation)
  }
  if (unreadable.length > 0) {
    faults.push(
      `${unreadable.length} line(s) that are no revocations are left out, the first is line ${unreadable[0]}`,
    )
  }
  return { revocations, faults, torn }
}

/**
 * Appends to the file, making it when it is not there; handed to the operating system when this returns. It is opened
 * each time: revocations are rare, and a file that was moved away or a disk that came back needs nothing special.
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

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''
    throw new Error(`${file}: revoked sessions cannot be read: ${String(error)}`, { cause: error })
  }
}

function parseRevocation(line: string): Revocation | undefined {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    return undefined
  }
  const { sid, revokedAtMs } = (value ?? {}) as Partial<Revocation>
  return isVisibleId(sid) && Number.isFinite(revokedAtMs)
    ? { sid, revokedAtMs: Number(revokedAtMs) }
    : undefined
}
