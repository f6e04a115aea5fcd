import { KNOWN_METHODS, UNREGISTERED_METHODS } from '../syntax/status-codes.ts'
import { compareTemplates, fixedLength, isTemplate, TemplateTree, withoutNames } from './path-template.ts'

/** A route or a limit. */
interface PathRow {
  /** Exact, a template with segments such as `{id}`, or a prefix ending in `/*`. */
  readonly path: string
  /** Undefined: every method; for a route, every registered one. */
  readonly methods: ReadonlySet<string> | undefined
}

export interface PathEntry<Row> {
  readonly rows: readonly Row[]
  /** Length of the fixed part without a closing slash; a template adds less than 1. More specific paths weigh more. */
  readonly weight: number
}

class PathIndex<Row> {
  readonly exact = new Map<string, PathEntry<Row>>()
  /** By the prefix with its closing slash. */
  readonly prefixes = new Map<string, PathEntry<Row>>()
  templates: TemplateTree<PathEntry<Row>> | undefined = undefined

  /** @param closing added to the path when a prefix is looked for */
  find(path: string, closing: '' | '/'): PathEntry<Row> | undefined {
    const exact = this.exact.get(path)
    if (exact !== undefined) return exact
    const prefix = longestPrefix(this.prefixes, path + closing)
    const template = this.templates?.find(path)
    if (template === undefined || prefix === undefined) return template ?? prefix
    return template.weight > prefix.weight ? template : prefix
  }
}

/** Finds rows: an exact path, else the template or longest prefix, whichever has the longer fixed part. Immutable. */
export class PathTable<Row extends PathRow> {
  readonly #written = new PathIndex<Row>()
  readonly #folded = new PathIndex<Row>()
  readonly #methods: ReadonlySet<string>

  constructor(rows: readonly Row[]) {
    const isListed = (method: string) => rows.some(({ methods }) => methods?.has(method))
    const isKnown = (method: string) => !UNREGISTERED_METHODS.has(method) || isListed(method)
    this.#methods = new Set([...KNOWN_METHODS].filter(isKnown))
    this.#addTemplates(rows.filter(({ path }) => isTemplate(path)))
    const others = rows.filter(({ path }) => !isTemplate(path))
    for (const [path, same] of Map.groupBy(others, (row) => row.path)) {
      const isPrefix = path.endsWith('/*')
      const fixed = isPrefix ? path.slice(0, -1) : path
      const entry = { rows: same, weight: withoutClosingSlash(fixed).length }
      const folded = fixed.toLowerCase()
      if (isPrefix) {
        this.#written.prefixes.set(fixed, entry)
        this.#folded.prefixes.set(folded, entry)
      } else {
        this.#written.exact.set(fixed, entry)
        this.#folded.exact.set(withoutClosingSlash(folded), entry)
      }
    }
  }

  #addTemplates(rows: readonly Row[]): void {
    if (rows.length === 0) return
    const written = new TemplateTree<PathEntry<Row>>()
    const folded = new TemplateTree<PathEntry<Row>>()
    this.#written.templates = written
    this.#folded.templates = folded
    // Among templates with equally long text before the first parameter, the most specific come last.
    const ordered = [...Map.groupBy(rows, ({ path }) => withoutNames(path))]
    ordered.sort(([one], [other]) => compareTemplates(other, one))
    for (const [index, [path, same]] of ordered.entries()) {
      const rank = (ordered.length + index) / (2 * ordered.length)
      const weight = withoutClosingSlash(path.slice(0, fixedLength(path))).length + rank
      written.add(path, { rows: same, weight })
      // Names of parameters match nothing, so they may be folded too.
      folded.add(withoutClosingSlash(path.toLowerCase()), { rows: same, weight })
    }
  }

  /** True when the method is registered or a row lists it. */
  knows(method: string): boolean {
    return this.#methods.has(method)
  }

  /** The rows of the most specific path that covers this one as it is written. */
  find(path: string): PathEntry<Row> | undefined {
    return this.#written.find(path, '')
  }

  /** The rows of a path as many services read it: `/API/Login/` as `/api/login`, and `/admin` as part of `/admin/*`. */
  findFolded(path: string): PathEntry<Row> | undefined {
    return this.#folded.find(withoutClosingSlash(path.toLowerCase()), '/')
  }
}

export function rowForMethod<Row extends PathRow>(entry: PathEntry<Row>, method: string): Row | undefined {
  for (const row of entry.rows) if (row.methods === undefined || row.methods.has(method)) return row
  return undefined
}

function longestPrefix<Entry>(prefixes: ReadonlyMap<string, Entry>, path: string): Entry | undefined {
  for (let slash = path.lastIndexOf('/'); slash >= 0; slash = path.lastIndexOf('/', slash - 1)) {
    const entry = prefixes.get(path.slice(0, slash + 1))
    if (entry !== undefined) return entry
    if (slash === 0) return undefined
  }
  return undefined
}

function withoutClosingSlash(path: string): string {
  return path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path
}

const EVERY_METHOD = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

/** The value of Allow (RFC 9110 section 10.2.1). Without an entry, it is for the whole server. */
export function allowOf(entry: PathEntry<PathRow> | undefined): string {
  const rows = entry?.rows ?? [{ methods: undefined }]
  return [...new Set(rows.flatMap(({ methods }) => [...(methods ?? EVERY_METHOD)]))].join(', ')
}
