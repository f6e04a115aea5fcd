import { KNOWN_METHODS, UNREGISTERED_METHODS } from '../syntax/status-codes.ts'
import { compareTemplates, fixedLength, isTemplate, TemplateTree, withoutNames } from './path-template.ts'

/** A row that applies to a path: a route or a limit. */
interface PathRow {
  /** Exact path, a template with segments such as `{id}`, or a prefix ending in `/*`. */
  readonly path: string
  /** Undefined: every method; of a route, every registered one. */
  readonly methods: ReadonlySet<string> | undefined
}

/** The rows that share one path, with different methods. */
export interface PathEntry<Row> {
  readonly rows: readonly Row[]
  /** The greater, the more specific: length of the path's fixed part without a closing slash, more for a template. */
  readonly weight: number
}

/**
 * Finds rows by path. An exact path is more specific than a template, and a longer prefix than a shorter one. A template is
 * more specific than a prefix that ends before its first parameter. Immutable; made at load.
 */
export class PathTable<Row extends PathRow> {
  readonly #exact = new Map<string, { rows: Row[]; weight: number }>()
  readonly #prefixes = new Map<string, { rows: Row[]; weight: number }>()
  readonly #foldedExact = new Map<string, PathEntry<Row>>()
  readonly #foldedPrefixes = new Map<string, PathEntry<Row>>()
  /** Undefined: there is none. */
  readonly #templates: TemplateTree<PathEntry<Row>> | undefined
  readonly #foldedTemplates: TemplateTree<PathEntry<Row>> | undefined

  /** Methods that are not registered and that a row lists; undefined: there is none. */
  readonly unregistered: ReadonlySet<string> | undefined

  constructor(rows: readonly Row[]) {
    const listed = [...UNREGISTERED_METHODS].filter((one) => rows.some(({ methods }) => methods?.has(one)))
    if (listed.length > 0) this.unregistered = new Set(listed)
    const templates = Map.groupBy(
      rows.filter(({ path }) => isTemplate(path)),
      ({ path }) => withoutNames(path),
    )
    if (templates.size > 0) {
      this.#templates = new TemplateTree()
      this.#foldedTemplates = new TemplateTree()
    }
    // Among those that are fixed for equally long from the left, the last is the most specific.
    const ordered = [...templates].sort(([one], [other]) => compareTemplates(other, one))
    for (const [index, [path, same]] of ordered.entries()) {
      const rank = (ordered.length + index) / (2 * ordered.length)
      const weight = withoutClosingSlash(path.slice(0, fixedLength(path))).length + rank
      this.#templates?.add(path, { rows: same, weight })
      this.#foldedTemplates?.add(foldTemplate(path), { rows: same, weight })
    }
    for (const row of rows) {
      if (isTemplate(row.path)) continue
      const prefix = row.path.endsWith('/*')
      const fixed = prefix ? row.path.slice(0, -1) : row.path
      const entries = prefix ? this.#prefixes : this.#exact
      const entry = entries.get(fixed) ?? { rows: [], weight: withoutClosingSlash(fixed).length }
      entry.rows.push(row)
      entries.set(fixed, entry)
      if (prefix) this.#foldedPrefixes.set(fixed.toLowerCase(), entry)
      else this.#foldedExact.set(withoutClosingSlash(fixed.toLowerCase()), entry)
    }
  }

  /** The method is registered, or a row lists it. */
  knows(method: string): boolean {
    return UNREGISTERED_METHODS.has(method)
      ? this.unregistered?.has(method) === true
      : KNOWN_METHODS.has(method)
  }

  /** The rows of the most specific path that covers exactly this one. */
  find(path: string): PathEntry<Row> | undefined {
    const exact = this.#exact.get(path)
    if (exact !== undefined) return exact
    const prefix = longestPrefix(this.#prefixes, path)
    return this.#templates === undefined ? prefix : moreSpecific(this.#templates.find(path), prefix)
  }

  /**
   * The same without regard to letter case and a closing slash, as many upstreams do: the rows of `/api/login` also apply
   * to `/API/Login/`, and those of `/admin/*` also to `/admin`.
   */
  findFolded(path: string): PathEntry<Row> | undefined {
    const bare = withoutClosingSlash(path.toLowerCase())
    const exact = this.#foldedExact.get(bare)
    if (exact !== undefined) return exact
    const prefix = longestPrefix(this.#foldedPrefixes, `${bare}/`)
    return this.#foldedTemplates === undefined
      ? prefix
      : moreSpecific(this.#foldedTemplates.find(bare), prefix)
  }
}

/** The row for the method among those of one path. */
export function rowForMethod<Row extends PathRow>(entry: PathEntry<Row>, method: string): Row | undefined {
  for (const row of entry.rows) if (row.methods === undefined || row.methods.has(method)) return row
  return undefined
}

function moreSpecific<Row>(
  one: PathEntry<Row> | undefined,
  other: PathEntry<Row> | undefined,
): PathEntry<Row> | undefined {
  if (one === undefined || other === undefined) return one ?? other
  return one.weight > other.weight ? one : other
}

/** The fixed segments in lower case; names of parameters match nothing. */
function foldTemplate(path: string): string {
  return withoutClosingSlash(path.toLowerCase())
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

/** The value of Allow (RFC 9110 section 10.2.1) for a path; undefined rows are those of the whole server. */
export function allowOf(entry: PathEntry<PathRow> | undefined): string {
  const rows = entry?.rows ?? [{ methods: undefined }]
  return [...new Set(rows.flatMap(({ methods }) => [...(methods ?? EVERY_METHOD)]))].join(', ')
}
