import type { Fault } from '../faults.ts'
import { parentPath } from './json-path.ts'
import { scanJson } from './json-scan.ts'
import type { Problem, SchemaCheck } from './schema-check.ts'

/** Characters; room for the longest lists that the schemas allow, with rows of some 400. */
const MAX_LENGTH = 4 * 1024 * 1024
/** Longer paths are cut in faults: a key may be as long as the file. */
const MAX_PATH_LENGTH = 200
/** One mistake in a generated file can be in each of thousands of rows. */
const MAX_FAULTS = 100

/**
 * A JSON file that has been read and compared with its schema: its value with the schema's defaults, and the faults
 * found so far, to which its reader adds its own.
 */
export class JsonFile<T> {
  /** Undefined when the text is not a JSON object. A part of it has its type only where `sound` says so. */
  readonly value: T | undefined
  readonly #file: string
  readonly #lines: ReadonlyMap<string, number>
  readonly #unsound: ReadonlySet<string>
  /** Paths that contain an unsound one. */
  readonly #spoilt: ReadonlySet<string>
  /** Faults that were only counted. */
  #uncollected = 0
  readonly #faults: { line: number; fault: Fault }[] = []

  /** @param file as the operator named it */
  constructor(file: string, text: string, check: SchemaCheck) {
    this.#file = file
    this.#lines = new Map()
    this.#unsound = new Set(['$'])
    this.#spoilt = new Set()
    // Editors on Windows begin a file with a byte order mark, which RFC 8259 section 8.1 lets a reader ignore.
    if (text.length > MAX_LENGTH) {
      this.refuse({ path: '$', reason: `must have at most ${MAX_LENGTH} characters, but has ${text.length}` })
      return
    }
    const json = text.startsWith('\uFEFF') ? text.slice(1) : text
    const scan = scanJson(json)
    if ('reason' in scan) {
      const { line, column, reason } = scan
      this.#faults.push({ line, fault: { file, path: `line ${line} column ${column}`, reason } })
      return
    }
    this.#lines = scan.lines
    const value: unknown = JSON.parse(json)
    for (const { path, lines } of scan.repeated) {
      this.refuse({ path, reason: `is written twice, on line ${lines[0]} and again` })
    }
    const { problems, unsound, more } = check(value)
    this.#uncollected = more
    this.#unsound = new Set(unsound)
    this.#spoilt = new Set(unsound.flatMap((path) => [...ancestors(path)]))
    for (const problem of problems) this.refuse(problem)
    if (this.#unsound.has('$')) return
    if (typeof value === 'object' && value !== null) this.value = value as T
  }

  /** Whether the schema allows everything at and below the path. */
  sound(path: string): boolean {
    if (this.#unsound.has(path) || this.#spoilt.has(path)) return false
    for (const above of ancestors(path)) if (this.#unsound.has(above)) return false
    return true
  }

  /** Whether the file has it; otherwise it is a default. */
  wrote(path: string): boolean {
    return this.#lines.has(path)
  }

  /** Refuses the value at the path when the schema allows it but the rule does not. @returns whether both allow it */
  check<V>(path: string, value: V | undefined, faultOf: (value: V) => string | undefined): boolean {
    if (!this.sound(path)) return false
    const reason = value === undefined ? undefined : faultOf(value)
    if (reason !== undefined) this.refuse({ path, reason })
    return reason === undefined
  }

  /** The same for each entry of a list. */
  checkEach<V>(
    path: string,
    list: readonly V[] | undefined,
    faultOf: (entry: V, index: number) => string | undefined,
  ): boolean {
    if (!this.sound(path)) return false
    const checked = list?.map((entry, index) =>
      this.check(`${path}[${index}]`, entry, (it) => faultOf(it, index)),
    )
    return checked?.includes(false) !== true
  }

  refuse({ path, reason }: Problem): void {
    const line = this.#lineOf(path)
    const place = line === 0 ? '' : ` (line ${line})`
    const shown = path.length > MAX_PATH_LENGTH ? `${path.slice(0, MAX_PATH_LENGTH)}…` : path
    this.#faults.push({ line, fault: { file: this.#file, path: shown, reason: reason + place } })
  }

  /** In the order of the file: the first hundred, and how many more there are. */
  faults(): readonly Fault[] {
    const sorted = this.#faults.toSorted((a, b) => a.line - b.line).map(({ fault }) => fault)
    const more = sorted.length + this.#uncollected - MAX_FAULTS
    if (more <= 0) return sorted
    return [
      ...sorted.slice(0, MAX_FAULTS),
      { file: this.#file, path: '$', reason: `has ${more} more faults` },
    ]
  }

  /** The line of a path; for a missing key, that of the object which lacks it. */
  #lineOf(path: string): number {
    for (const at of [path, ...ancestors(path)]) {
      const line = this.#lines.get(at)
      if (line !== undefined) return line
    }
    return 0
  }
}

/** The paths that contain this one, innermost first. */
function* ancestors(path: string): Iterable<string> {
  for (let at = parentPath(path); at !== undefined; at = parentPath(at)) yield at
}
