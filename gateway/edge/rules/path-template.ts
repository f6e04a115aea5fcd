const PARAMETER = /\{([A-Za-z_][A-Za-z0-9_.-]*)\}/

export function isTemplate(path: string): boolean {
  return path.includes('{')
}

export interface ParameterPlace {
  readonly name: string
  /** Number of the segment in the path, from 0. */
  readonly at: number
  /** Number of the parameter in the segment, from 0. */
  readonly index: number
  /** The texts before, between and after the parameters of the segment. */
  readonly fixed: readonly string[]
}

export function parametersOf(path: string): readonly ParameterPlace[] {
  return segmentsOf(path).flatMap((segment, at) => {
    const { names, fixed } = partsOf(segment)
    return names.map((name, index) => ({ name, at, index, fixed }))
  })
}

/** `{a}-{b}.json` has the names `a` and `b`, and the fixed texts '', `-` and `.json`. */
export function partsOf(segment: string): { readonly names: string[]; readonly fixed: string[] } {
  const parts = segment.split(PARAMETER)
  return { names: parts.filter((_, at) => at % 2 === 1), fixed: parts.filter((_, at) => at % 2 === 0) }
}

/** @param segments of a path that the parameter's template matches */
export function textOf({ at, index, fixed }: ParameterPlace, segments: readonly string[]): string {
  const segment = segments[at] ?? ''
  let from = fixed[0]?.length ?? 0
  for (let place = 0; ; place++) {
    const end = endOf(segment, fixed, { place, from })
    if (place === index) return segment.slice(from, end)
    from = end + (fixed[place + 1]?.length ?? 0)
  }
}

/** True when a segment has these texts, and at least one character for each parameter between them. */
function isBetween(segment: string, fixed: readonly string[]): boolean {
  const [first = '', last = ''] = [fixed[0], fixed.at(-1)]
  if (!segment.startsWith(first) || !segment.endsWith(last)) return false
  let from = first.length
  for (let place = 0; place < fixed.length - 1; place++) {
    const end = endOf(segment, fixed, { place, from })
    if (end <= from) return false
    from = end + (fixed[place + 1]?.length ?? 0)
  }
  return from === segment.length
}

/** Index of a parameter's end: where the next text first occurs, or -1. The last parameter ends at the closing text. */
function endOf(
  segment: string,
  fixed: readonly string[],
  { place, from }: { readonly place: number; readonly from: number },
): number {
  const next = fixed[place + 1] ?? ''
  return place === fixed.length - 2 ? segment.length - next.length : segment.indexOf(next, from + 1)
}

/** `a` and `b` for `/a/b`. */
export function segmentsOf(path: string): string[] {
  return path.slice(1).split('/')
}

/** Where the first parameter begins, or the whole length. */
export function fixedLength(path: string): number {
  const at = path.indexOf('{')
  return at === -1 ? path.length : at
}

/** Templates that match the same paths become equal. */
export function withoutNames(path: string): string {
  return path.replaceAll(/\{[^/{}]*\}/g, '{_}')
}

/** True when one path may match both: exact paths, templates, or prefixes with `/*`. A parameter meets any segment. */
export function patternsMeet(one: string, other: string): boolean {
  const [segments, others] = [segmentsOf(one), segmentsOf(other)]
  for (const [at, segment] of segments.entries()) {
    const against = others[at]
    if (segment === '*' || against === '*') return true
    if (against === undefined) return false
    if (!isTemplate(segment) && !isTemplate(against) && segment !== against) return false
  }
  return segments.length === others.length
}

interface Node<Entry> {
  readonly fixed: Map<string, Node<Entry>>
  /** More specific segments first. */
  varying: readonly {
    readonly segment: string
    readonly fixed: readonly string[]
    readonly node: Node<Entry>
  }[]
  entry: Entry | undefined
}

/** Finds entries by templates, more specific ones first. */
export class TemplateTree<Entry> {
  readonly #root: Node<Entry> = node()

  add(path: string, entry: Entry): void {
    let at = this.#root
    for (const segment of segmentsOf(path))
      at = isTemplate(segment) ? varyingOf(at, segment) : at.fixed.getOrInsertComputed(segment, node<Entry>)
    at.entry = entry
  }

  find(path: string): Entry | undefined {
    return search(this.#root, path, 1)
  }
}

function node<Entry>(): Node<Entry> {
  return { fixed: new Map(), varying: [], entry: undefined }
}

function varyingOf<Entry>(at: Node<Entry>, segment: string): Node<Entry> {
  const known = at.varying.find((one) => one.segment === segment)
  if (known !== undefined) return known.node
  const next: Node<Entry> = node()
  const varying = [...at.varying, { segment, fixed: partsOf(segment).fixed, node: next }]
  at.varying = varying.sort((one, other) => compareSegments(one.segment, other.segment))
  return next
}

/** @param from where the next segment begins */
function search<Entry>(at: Node<Entry>, path: string, from: number): Entry | undefined {
  if (from > path.length) return at.entry
  if (at.varying.length === 0 && at.fixed.size === 0) return undefined
  const slash = path.indexOf('/', from)
  const end = slash === -1 ? path.length : slash
  const segment = path.slice(from, end)
  const fixed = at.fixed.get(segment)
  const found = fixed && search(fixed, path, end + 1)
  if (found !== undefined) return found
  for (const one of at.varying) {
    const below = isBetween(segment, one.fixed) ? search(one.node, path, end + 1) : undefined
    if (below !== undefined) return below
  }
  return undefined
}

export function compareTemplates(one: string, other: string): number {
  const [segments, others] = [segmentsOf(one), segmentsOf(other)]
  for (const [at, segment] of segments.entries()) {
    const against = others[at]
    const order = against === undefined ? 0 : compareSegments(segment, against)
    if (order !== 0) return order
  }
  return segments.length - others.length
}

/** Orders by the text before the first parameter, then by all fixed text (both longest first), then by alphabet. */
function compareSegments(one: string, other: string): number {
  const [begin, otherBegin] = [beginOf(one), beginOf(other)]
  if (begin !== otherBegin) return otherBegin - begin
  const length = partsOf(one).fixed.join('').length
  const otherLength = partsOf(other).fixed.join('').length
  if (length !== otherLength) return otherLength - length
  const [text, otherText] = [one.toLowerCase(), other.toLowerCase()]
  return text < otherText ? -1 : Number(text > otherText)
}

function beginOf(segment: string): number {
  return isTemplate(segment) ? fixedLength(segment) : Number.POSITIVE_INFINITY
}
