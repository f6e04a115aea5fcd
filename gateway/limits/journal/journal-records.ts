import { readFileSync } from 'node:fs'
import { type FileFormat, NewerFormatError, parsedJson, readLines } from '../../storage/line-file.ts'
import { messageOf } from '../../terminal/printable.ts'
import type { RowRecord } from '../table/row-matching.ts'

export const FORMAT: FileFormat = { name: 'limits', version: 1 }

const BATCH_CHARACTERS = 64 * 1024
/** Parsing lines together takes half as long as parsing each alone. */
const BATCH_LINES = 1_000

/** A line of the journal. `id` is the id of the row's record. */
export interface Hit {
  readonly id: number
  readonly atMs: number
  readonly key: string
  readonly count: number
  /** A further hit of the request, in the same write. */
  readonly next?: Hit | undefined
}

/** The part of a file that could not be used. It does not stop the start. */
export interface Ignored {
  readonly file: string
  /** Torn by a crash, or edited. */
  readonly damagedLines: number
  /** Counted from 1; 0 when none is damaged, or the file cannot be read. */
  readonly firstDamagedLine: number
  readonly strayLines: number
  readonly reason: string | undefined
}

/** `[12,1763692800000.25,"p:alice"]\n`, with the count at the end unless it is 1. `next` has its own line. */
export function hitLine({ id, atMs, key, count, next }: Hit): string {
  const many = count === 1 ? '' : `,${count}`
  const line = `[${id},${atMs},${JSON.stringify(key)}${many}]\n`
  return next === undefined ? line : line + hitLine(next)
}

export function* batches(hits: Iterable<Hit>): Iterable<string> {
  let lines = ''
  for (const hit of hits) {
    lines += hitLine(hit)
    if (lines.length < BATCH_CHARACTERS) continue
    yield lines
    lines = ''
  }
  if (lines !== '') yield lines
}

/** `{"rows":[…]}`. The last one in the files tells which row has which id. */
export function tableLine(rows: readonly RowRecord[]): string {
  return `${JSON.stringify({ rows })}\n`
}

/** Undefined when none can be read. */
export function lastTable(file: string): readonly RowRecord[] | undefined {
  try {
    const text = readFileSync(file, 'utf8')
    // Searches from the end, because splitting a million lines would take long.
    for (let end = text.length; end > 0; ) {
      const start = text.lastIndexOf('\n{', end - 1) + 1
      const rows = text.startsWith('{', start)
        ? tableFrom(parsedJson(text.slice(start, lineEnd(text, start))))
        : undefined
      if (rows !== undefined) return rows
      end = start - 1
    }
  } catch {
    // `readHits` of the same file reports it.
  }
  return undefined
}

/**
 * If the file cannot be read, the result says why.
 *
 * @param visit returns whether the hit belongs to a row of the table
 * @returns undefined when everything was used
 * @throws NewerFormatError
 */
export function readHits(file: string, visit: (hit: Hit) => boolean): Ignored | undefined {
  let damagedLines = 0
  let firstDamagedLine = 0
  let strayLines = 0
  try {
    const { lines, firstLine } = readLines(file, FORMAT)
    for (let from = 0; from < lines.length; from += BATCH_LINES) {
      const batch = lines.slice(from, from + BATCH_LINES)
      const values = valuesOf(batch)
      for (let i = 0; i < batch.length; i++) {
        // An empty line was written to try whether the disk takes anything.
        if (batch[i] === '') continue
        const hit = hitFrom(values[i])
        if (hit !== undefined) {
          if (!visit(hit)) strayLines++
        } else if (tableFrom(values[i]) === undefined) {
          damagedLines++
          if (firstDamagedLine === 0) firstDamagedLine = firstLine + from + i
        }
      }
    }
  } catch (error) {
    if (error instanceof NewerFormatError) throw error
    const reason = messageOf(error)
    return { file, damagedLines, firstDamagedLine, strayLines, reason }
  }
  if (damagedLines === 0 && strayLines === 0) return undefined
  return { file, damagedLines, firstDamagedLine, strayLines, reason: undefined }
}

function lineEnd(text: string, start: number): number {
  const newline = text.indexOf('\n', start)
  return newline === -1 ? text.length : newline
}

function valuesOf(lines: readonly string[]): unknown[] {
  if (lines.every((line) => line.startsWith('[') && line.endsWith(']'))) {
    const values = parsedJson(`[${lines.join()}]`)
    // Damaged lines can make more or fewer values.
    if (Array.isArray(values) && values.length === lines.length) return values
  }
  return lines.map(parsedJson)
}

function hitFrom(fields: unknown): Hit | undefined {
  if (!Array.isArray(fields)) return undefined
  const [id, atMs, key, count = 1] = fields
  const whole = Number.isSafeInteger(id) && Number.isSafeInteger(count) && count > 0
  return whole && Number.isFinite(atMs) && typeof key === 'string' ? { id, atMs, key, count } : undefined
}

function tableFrom(table: unknown): readonly RowRecord[] | undefined {
  if (typeof table !== 'object' || table === null || !('rows' in table)) return undefined
  const { rows } = table
  return Array.isArray(rows) && rows.every(isRowRecord) ? rows : undefined
}

function isRowRecord(value: unknown): value is RowRecord {
  if (typeof value !== 'object' || value === null) return false
  const row = value as Partial<Record<keyof RowRecord, unknown>>
  const strings = Array.isArray(row.methods) ? [row.name, row.path, ...row.methods] : [row.name, row.path]
  return (
    (row.methods === null || Array.isArray(row.methods)) &&
    strings.every((text) => typeof text === 'string') &&
    [row.id, row.limit, row.windowMs].every(Number.isSafeInteger) &&
    (row.horizonMs === null || Number.isFinite(row.horizonMs))
  )
}
