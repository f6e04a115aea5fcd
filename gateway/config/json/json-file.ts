import { plural } from '../../terminal/printable.ts'
import { ENVIRONMENT, type Fault, type FaultPlace } from '../faults.ts'
import { headerValues, hidden, type Spans } from './hidden-text.ts'
import { parentPath } from './json-path.ts'
import { type JsonSyntaxFault, type ScannedJson, scanJson } from './json-scan.ts'
import { LineIndex } from './line-index.ts'
import type { Problem, SchemaCheck } from './schema-check.ts'

/** Room for the longest lists that the schemas allow, with rows of about 400 characters. */
const MAX_LENGTH = 4 * 1024 * 1024
/** Longer paths are cut in faults: a key may be as long as the file. */
const MAX_PATH_LENGTH = 200
/** A generated file can have one mistake in each of thousands of rows. */
const MAX_FAULTS = 100
/** Characters of a line that are shown on each side of a fault. */
const MAX_AROUND = 60
/** A secret that begins further before the fault is not recognised. No secret is so long. */
const MAX_SECRET = 400

/** Values of variables, by JSON path. */
export type Overrides = ReadonlyMap<string, { readonly variable: string; readonly value: unknown }>

interface JsonFileOptions {
  readonly secret?: boolean
  readonly read?: (text: string) => ScannedJson | JsonSyntaxFault
  readonly overrides?: Overrides
}

/** A JSON file compared with its schema. It has the value with its defaults, and the faults. Rules may add faults. */
export class JsonFile<T> {
  /** Undefined when the text is not a JSON object. A part of it has its type only where `sound` says so. */
  readonly value: T | undefined
  readonly #file: string
  readonly #offsets: ReadonlyMap<string, number> = new Map()
  readonly #index: LineIndex
  readonly #text: string
  /** False if the file is of another kind or may hold a secret. Faults then show no lines of it. */
  readonly #shown: boolean
  readonly #unsound: ReadonlySet<string> = new Set(['$'])
  /** Paths that contain an unsound path. */
  readonly #spoilt: ReadonlySet<string> = new Set()
  #overrides: Overrides = new Map()
  #headers: Spans | undefined
  #uncollected = 0
  /** `offset` is undefined for the fault of a variable, and in a text that was not read. */
  readonly #faults: { offset: number | undefined; fault: Fault }[] = []

  /** @param options.overrides are checked as if the file had them; their faults name the variable */
  constructor(file: string, text: string, check: SchemaCheck, options: JsonFileOptions = {}) {
    this.#file = file
    const json = withoutMark(text)
    this.#shown = options.secret !== true && /^[ \t]*\{|^openapi:/m.test(json)
    this.#text = text.length > MAX_LENGTH ? '' : json
    this.#index = new LineIndex(this.#text)
    if (text.length > MAX_LENGTH) {
      this.refuse({ path: '$', reason: `must have at most ${MAX_LENGTH} characters, but has ${text.length}` })
      return
    }
    const scan = (options.read ?? readJson)(json)
    if ('reason' in scan) {
      const { offset, reason } = scan
      const { line, column } = this.#index.placeOf(offset)
      this.#faults.push({ offset, fault: { file, path: `line ${line} column ${column}`, reason } })
      return
    }
    this.#offsets = scan.offsets
    const { value } = scan
    for (const { path, first } of scan.repeated) {
      this.refuse({ path, reason: `is written twice, on line ${this.#index.placeOf(first).line} and again` })
    }
    this.#overrides = options.overrides ?? this.#overrides
    override(value, this.#overrides)
    const { problems, unsound, more } = check(value)
    this.#uncollected = more
    this.#unsound = new Set(unsound)
    this.#spoilt = new Set(unsound.flatMap((path) => [...ancestors(path)]))
    for (const problem of problems) this.refuse(problem)
    if (this.#unsound.has('$')) return
    if (typeof value === 'object' && value !== null) this.value = value as T
  }

  /** True when the schema allows everything at and below the path. */
  sound(path: string): boolean {
    if (this.#unsound.has(path) || this.#spoilt.has(path)) return false
    return !ancestors(path).some((above) => this.#unsound.has(above))
  }

  /** True when the file or a variable has a value at the path. */
  wrote(path: string): boolean {
    return this.#offsets.has(path) || this.#overrides.has(path)
  }

  /** Refuses the value at the path when the schema allows it but the rule does not. @returns whether both allow it */
  check<V>(path: string, value: V | undefined, faultOf: (value: V) => string | undefined): boolean {
    if (!this.sound(path)) return false
    const reason = value === undefined ? undefined : faultOf(value)
    if (reason !== undefined) this.refuse({ path, reason })
    return reason === undefined
  }

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
    const overridden = [path, ...ancestors(path)].find((at) => this.#overrides.has(at))
    if (overridden !== undefined) {
      const variable = this.#overrides.get(overridden)?.variable + path.slice(overridden.length)
      this.#faults.push({ offset: undefined, fault: { file: ENVIRONMENT, path: variable, reason } })
      return
    }
    const shown = path.length > MAX_PATH_LENGTH ? `${path.slice(0, MAX_PATH_LENGTH)}…` : path
    this.#faults.push({ offset: this.#offsetOf(path), fault: { file: this.#file, path: shown, reason } })
  }

  /** The faults of variables, then those of the file in its order; at most a hundred, then how many more there are. */
  faults(): readonly Fault[] {
    const lineOf = (offset?: number) => (offset === undefined ? 0 : this.#index.placeOf(offset).line)
    const sorted = this.#faults
      .map((one) => ({ ...one, line: lineOf(one.offset) }))
      .toSorted((a, b) => a.line - b.line)
      .slice(0, MAX_FAULTS)
      .map(({ offset, fault }) => (offset === undefined ? fault : { ...fault, at: this.#placeOf(offset) }))
    const more = this.#faults.length + this.#uncollected - MAX_FAULTS
    if (more <= 0) return sorted
    return [...sorted, { file: this.#file, path: '$', reason: `has ${plural(more, 'more fault')}` }]
  }

  /** For a missing key, the place of the object that lacks it. */
  #offsetOf(path: string): number | undefined {
    const offsets = [path, ...ancestors(path)].map((at) => this.#offsets.get(at))
    return offsets.find((offset) => offset !== undefined)
  }

  #placeOf(offset: number): FaultPlace {
    const place = this.#index.placeOf(offset)
    if (!this.#shown) return place
    const line = this.#index.lineAt(place.line)
    const column = place.column - 1
    const start = Math.max(0, column - MAX_SECRET)
    // Only the near part is searched for secrets, because a file may be one long line.
    this.#headers ??= headerValues(this.#text)
    const near = hidden(line.slice(start, column + MAX_SECRET), offset - column + start, this.#headers)
    const from = Math.max(0, column - MAX_AROUND)
    const until = column + MAX_AROUND
    const before = (from > 0 ? '…' : '') + near.slice(from - start, column - start)
    const text = before + near.slice(column - start, until - start) + (line.length > until ? '…' : '')
    return { ...place, excerpt: { text, caret: before.length } }
  }
}

/** Puts values at their paths. A value in the place of an object stays, and the schema refuses it. */
export function override(value: unknown, overrides: Overrides): void {
  for (const [path, { value: own }] of overrides) {
    const steps = path.split('.').slice(1)
    const last = steps.pop() as string
    let at = value as Record<string, unknown>
    for (const step of steps) {
      if (isObject(at) && at[step] === undefined) at[step] = {}
      at = at?.[step] as Record<string, unknown>
    }
    if (isObject(at)) at[last] = own
  }
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null
}

function readJson(text: string): ScannedJson | JsonSyntaxFault {
  const scan = scanJson(text)
  return 'reason' in scan ? scan : { ...scan, value: JSON.parse(text) }
}

/** The paths that contain this one, innermost first. */
function* ancestors(path: string): Generator<string> {
  for (let at = parentPath(path); at !== undefined; at = parentPath(at)) yield at
}

/** Editors on Windows begin a file with a byte order mark, which RFC 8259 section 8.1 lets a reader ignore. */
export function withoutMark(text: string): string {
  return text.startsWith('\uFEFF') ? text.slice(1) : text
}
