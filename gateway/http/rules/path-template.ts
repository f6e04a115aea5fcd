/** A segment that stands for any one segment, such as `{id}`. */
const PARAMETER = /^\{[A-Za-z_][A-Za-z0-9_.-]*\}$/

/** Whether a path has segments such as `{id}`. */
export function isTemplate(path: string): boolean {
  return path.includes('{')
}

export function isParameter(segment: string): boolean {
  return PARAMETER.test(segment)
}

/** The names of its parameters and at which segment each stands, from 0. */
export function parametersOf(path: string): readonly { readonly name: string; readonly at: number }[] {
  const segments = segmentsOf(path)
  return segments.flatMap((segment, at) => (isParameter(segment) ? [{ name: segment.slice(1, -1), at }] : []))
}

/** Of `/a/b`: `a` and `b`. */
export function segmentsOf(path: string): string[] {
  return path.slice(1).split('/')
}

/** Where the first parameter begins; the whole length when there is none. */
export function fixedLength(path: string): number {
  const at = path.indexOf('{')
  return at === -1 ? path.length : at
}

/** Equal for templates that match the same paths, whatever they call their parameters. */
export function withoutNames(path: string): string {
  return path.replaceAll(/\{[^/{}]*\}/g, '{_}')
}

interface Node<Entry> {
  readonly fixed: Map<string, Node<Entry>>
  parameter: Node<Entry> | undefined
  entry: Entry | undefined
}

/**
 * Finds entries by templates. Where several match, the one that is fixed at the first segment in which they differ. A look-up
 * visits each segment of the templates once at most, however long the path is.
 */
export class TemplateTree<Entry> {
  readonly #root: Node<Entry> = node()

  add(path: string, entry: Entry): void {
    let at = this.#root
    for (const segment of segmentsOf(path)) {
      let next = isParameter(segment) ? at.parameter : at.fixed.get(segment)
      if (next === undefined) {
        next = node()
        if (isParameter(segment)) at.parameter = next
        else at.fixed.set(segment, next)
      }
      at = next
    }
    at.entry = entry
  }

  find(path: string): Entry | undefined {
    return search(this.#root, path, 1)
  }
}

function node<Entry>(): Node<Entry> {
  return { fixed: new Map(), parameter: undefined, entry: undefined }
}

/** @param from where the next segment begins; beyond the path when there is none */
function search<Entry>(at: Node<Entry>, path: string, from: number): Entry | undefined {
  if (from > path.length) return at.entry
  if (at.parameter === undefined && at.fixed.size === 0) return undefined
  const slash = path.indexOf('/', from)
  const end = slash === -1 ? path.length : slash
  const fixed = at.fixed.get(path.slice(from, end))
  const found = fixed && search(fixed, path, end + 1)
  if (found !== undefined || at.parameter === undefined) return found
  // No parameter is empty: `/users/` is not a user.
  return end === from ? undefined : search(at.parameter, path, end + 1)
}

/** Between 0.5 and 1: the greater, the more specific after the first parameter. */
export function templateRank(path: string): number {
  const segments = segmentsOf(path.slice(fixedLength(path) - 1))
  let rank = 0.5
  let step = 0.25
  for (const segment of segments.slice(1)) {
    if (!isParameter(segment)) rank += step
    step /= 2
  }
  return rank
}
