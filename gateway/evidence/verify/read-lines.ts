import { closeSync, readSync } from 'node:fs'
import type { HashText } from '../../audit/seals/hashes.ts'
import type { LineHasher } from '../../audit/seals/line-hasher.ts'
import { blocksOf, openPlain } from '../../audit/segments/read-segment.ts'
import type { Segment } from '../../audit/segments/segment.ts'
import type { Place } from './finding.ts'

/** Lines that are kept behind: the first that differs is found at the end of its tile. */
const KEPT_LINES = 512
/** Forgotten at once. */
const FORGOTTEN_LINES = 2048
const MARKED_LINES = 256

/** The lines of a trail that were read and not yet compared with the tree, and where each of all stands. */
export class ReadLines {
  readonly #files: { readonly path: string; readonly first: number }[] = []
  #hashes: HashText[] = []
  #bytes: number[] = []
  #first = 0
  #count = 0
  /** Lines from there on are only counted. */
  #keptEnd = Number.POSITIVE_INFINITY
  /** Where every 256th line of all begins in its file. */
  readonly #marks: number[] = []

  /** Lines read in all. */
  get count(): number {
    return this.#count
  }

  beginFile(path: string): void {
    this.#files.push({ path, first: this.count })
  }

  /** In the last file, the number that the next line has there. */
  get lineAfter(): number {
    return this.#count - (this.#files.at(-1)?.first ?? 0) + 1
  }

  /** @param byte where the line begins in its file. */
  push(hash: HashText, byte: number): void {
    if (this.count % MARKED_LINES === 0) this.#marks.push(byte)
    if (this.#count++ >= this.#keptEnd) return
    this.#hashes.push(hash)
    this.#bytes.push(byte)
  }

  /** Nobody will ask for lines from this one on: a gateway that could not seal for long has left millions of them. */
  keepTo(line: number): void {
    this.#keptEnd = line
  }

  /** The hash of a line that is kept; lines have numbers from 0 over all files. */
  hash(line: number): HashText | undefined {
    return this.#hashes[line - this.#first]
  }

  /** Forgets lines before this one, if they are many, but for the last that may still be asked for. */
  forget(line: number): void {
    const count = line - this.#first - KEPT_LINES
    if (count < FORGOTTEN_LINES) return
    this.#hashes = this.#hashes.slice(count)
    this.#bytes = this.#bytes.slice(count)
    this.#first += count
  }

  /** Place of a line, or of one shortly before that is known. */
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

  /** The file before that whose first line this is. */
  fileBefore(line: number): string | undefined {
    const at = this.#files.findLastIndex(({ first }) => first <= line)
    return this.#files[at]?.first === line ? this.#files[at - 1]?.path : undefined
  }
}

/** Gives the hasher all of a segment, part by part; also if the gateway has renamed or compressed it since it was listed. */
export async function* feed(segment: Segment, hasher: LineHasher): AsyncGenerator<void, void, undefined> {
  // Without a stream there is nothing to copy or to wait for.
  const fd = openPlain(segment)
  if (fd === undefined) {
    for await (const block of blocksOf(segment)) yield hasher.push(block)
    return
  }
  try {
    for (let count = -1; count !== 0; ) {
      count = readSync(fd, hasher.space)
      yield hasher.take(count)
    }
  } finally {
    closeSync(fd)
  }
}
