/** A row that applies to a path: a route or a limit. */
interface PathRow {
  /** Exact path, or a prefix ending in `/*`. */
  readonly path: string
  /** Undefined: every method. */
  readonly methods: ReadonlySet<string> | undefined
}

/** The rows that share one path, with different methods. */
export interface PathEntry<Row> {
  readonly rows: readonly Row[]
  /** Length of the path's fixed part without a closing slash: the greater, the more specific. */
  readonly weight: number
}

/**
 * Finds rows by path. An exact path is more specific than a prefix, a longer prefix than a shorter one. Immutable; made at
 * load.
 */
export class PathTable<Row extends PathRow> {
  readonly #exact = new Map<string, { rows: Row[]; weight: number }>()
  readonly #prefixes = new Map<string, { rows: Row[]; weight: number }>()
  readonly #foldedExact = new Map<string, PathEntry<Row>>()
  readonly #foldedPrefixes = new Map<string, PathEntry<Row>>()

  constructor(rows: readonly Row[]) {
    for (const row of rows) {
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

  /** The rows of the most specific path that covers exactly this one. */
  find(path: string): PathEntry<Row> | undefined {
    return this.#exact.get(path) ?? longestPrefix(this.#prefixes, path)
  }

  /**
   * The same without regard to letter case and a closing slash, as many upstreams do: the rows of `/api/login` also apply
   * to `/API/Login/`, and those of `/admin/*` also to `/admin`.
   */
  findFolded(path: string): PathEntry<Row> | undefined {
    const bare = withoutClosingSlash(path.toLowerCase())
    return this.#foldedExact.get(bare) ?? longestPrefix(this.#foldedPrefixes, `${bare}/`)
  }
}

/** The row for the method among those of one path. */
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
