import { readSync } from 'node:fs'

const CHUNK_BYTES = 256 * 1024
const NEWLINE = 10

/** The position after the last `\n` of a file, or 0. */
export function endOfLastLine(fd: number, size: number): number {
  const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, size))
  for (let end = size; end > 0; ) {
    const start = Math.max(0, end - chunk.length)
    readWhole(fd, chunk.subarray(0, end - start), start)
    const newline = chunk.subarray(0, end - start).lastIndexOf(NEWLINE)
    if (newline !== -1) return start + newline + 1
    end = start
  }
  return 0
}

/**
 * The lines of a file, last first, without their `\n`. A line is a latin1 string that may keep a whole chunk in memory,
 * so copy what you store (`utf8`, `ownText`).
 * @param end as `endOfLastLine` gives it
 */
export function* linesBackward(fd: number, end: number): Generator<string, void, undefined> {
  const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, end))
  const pieces: string[] = []
  // The last `\n` ends a line instead of dividing two.
  for (let position = end - 1; position > 0; ) {
    const start = Math.max(0, position - chunk.length)
    const bytes = chunk.subarray(0, position - start)
    readWhole(fd, bytes, start)
    const text = bytes.toString('latin1')
    const newlines = positionsOf('\n', text)
    let lineEnd = text.length
    for (let i = newlines.length - 1; i >= 0; i--) {
      const newline = newlines[i] as number
      pieces.push(text.slice(newline + 1, lineEnd))
      yield joined(pieces)
      lineEnd = newline
    }
    pieces.push(text.slice(0, lineEnd))
    position = start
  }
  if (end > 0) yield joined(pieces)
}

export function utf8(line: string): string {
  return Buffer.from(line, 'latin1').toString('utf8')
}

/** A search forwards is many times faster than one backwards. */
function positionsOf(char: string, text: string): number[] {
  const positions: number[] = []
  for (let at = text.indexOf(char); at !== -1; at = text.indexOf(char, at + 1)) positions.push(at)
  return positions
}

function joined(pieces: string[]): string {
  const line = pieces.length === 1 ? (pieces[0] as string) : pieces.reverse().join('')
  pieces.length = 0
  return line
}

function readWhole(fd: number, into: Buffer, position: number): void {
  for (let at = 0; at < into.length; ) {
    const count = readSync(fd, into, at, into.length - at, position + at)
    if (count === 0) throw new Error('the file became shorter while it was read')
    at += count
  }
}
