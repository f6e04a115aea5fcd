import { readFileSync, statSync } from 'node:fs'
import type { Fault, Parsed } from './faults.ts'
import { checkSize, utf8Text } from './file-text.ts'

/** The text of a file. Throws what `node:fs` throws when it cannot be read. */
export type ReadFile = (file: string) => string

export type ParseFile<T> = (file: string, text: string) => Parsed<T>

/** What a reloader begins with: a text, and what was made of it. */
export interface LoadedFile<T> {
  readonly text: string
  readonly value: T
}

/** Reads and parses one file, waiting for it: for the start. A file that cannot be read is a fault like any other. */
export function loadFile<T>(
  file: string,
  parse: ParseFile<T>,
  readFile: ReadFile = readText,
): Parsed<LoadedFile<T>> {
  let text: string
  try {
    text = readFile(file)
  } catch (error) {
    return { faults: [unreadable(file, error)] }
  }
  const { value, faults } = parse(file, text)
  return faults === undefined ? { value: { text, value } } : { faults }
}

export function unreadable(file: string, error: unknown): Fault {
  return {
    file,
    path: '$',
    reason: `cannot be read: ${error instanceof Error ? error.message : String(error)}`,
  }
}

/** For PEM, which may stand among comments in any encoding. */
export function readLenient(file: string): string {
  checkSize(statSync(file).size)
  return readFileSync(file, 'utf8')
}

function readText(file: string): string {
  checkSize(statSync(file).size)
  return utf8Text(readFileSync(file))
}
