import type { HashText } from '../../audit/seals/hashes.ts'
import type { Place } from './finding.ts'

/** Lines kept before the last compared one, because a difference is found only at the end of its tile. */
const KEPT_LINES = 512
const FORGOTTEN_LINES = 2048
const MARKED_LINES = 256

/** Lines read and not yet compared, with their places. */
export class ReadLines {
  readonly #files: { readonly path: string; readonly first: number }[] = []
  #hashes: HashText[] = []
  #bytes: number[] = []
  #first = 0
  count = 0
  #keptEnd = Number.POSITIVE_INFINITY
  readonly #marks: number[] = []

  get files(): number {
    return this.#files.length
  }

  beginFile(path: string): void {
    this.#files.push({ path, first: this.count })
  }

  get lineAfter(): number {
    return this.count - (this.#files.at(-1)?.first ?? 0) + 1
  }

  push(hash: HashText, byte: number): void {
    if (this.count % MARKED_LINES === 0) this.#marks.push(byte)
    if (this.count++ >= this.#keptEnd) return
    this.#hashes.push(hash)
    this.#bytes.push(byte)
  }

  /** Lines from `line` on are only counted, because an outage of seals leaves millions unsealed. */
  keepTo(line: number): void {
    this.#keptEnd = line
  }

  /** @param line its number from 0 over all files */
  hash(line: number): HashText | undefined {
    return this.#hashes[line - this.#first]
  }

  forget(line: number): void {
    const count = line - this.#first - KEPT_LINES
    if (count < FORGOTTEN_LINES) return
    this.#hashes = this.#hashes.slice(count)
    this.#bytes = this.#bytes.slice(count)
    this.#first += count
  }

  /** The place of a line, or of a known line shortly before it. */
  place(line: number): Place | undefined {
    const file = this.#files.findLast(({ first }) => first <= line)
    if (file === undefined || line >= this.count) return undefined
    const { path, first } = file
    const byte = this.#bytes[line - this.#first]
    if (byte !== undefined) return { file: path, line: line - first + 1, byte }
    const mark = Math.floor(line / MARKED_LINES)
    const marked = mark * MARKED_LINES
    if (marked < first) return { file: path, line: 1, byte: 0 }
    return { file: path, line: marked - first + 1, byte: this.#marks[mark] ?? 0 }
  }

  /** Undefined unless the line is the first of its file. */
  fileBefore(line: number): string | undefined {
    const at = this.#files.findLastIndex(({ first }) => first <= line)
    return this.#files[at]?.first === line ? this.#files[at - 1]?.path : undefined
  }
}
