import { readFileSync, statSync } from 'node:fs'
import type { Fault, Parsed } from './faults.ts'
import { checkSize, utf8Text } from './file-text.ts'

/** Returns the text of a file. Throws like `node:fs`. */
export type ReadFile = (file: string) => string

export type ParseFile<T> = (file: string, text: string) => Parsed<T>

/** The text of a file and the value parsed from it. */
export interface LoadedFile<T> {
  readonly text: string
  readonly value: T
}

/** Reads and parses one file synchronously, at startup. An unreadable file is a fault. */
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

/** Reads a file without checking its encoding: PEM files may have comments in any. */
export function readLenient(file: string): string {
  checkSize(statSync(file).size)
  return readFileSync(file, 'utf8')
}

/** Reads a file that must be UTF-8. */
export function readText(file: string): string {
  checkSize(statSync(file).size)
  return utf8Text(readFileSync(file))
}
