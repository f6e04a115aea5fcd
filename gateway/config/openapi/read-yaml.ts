import { createRequire } from 'node:module'
import type { Alias, Document, Node, Pair, ParsedNode, YAMLError } from 'yaml'
import { childPath } from '../json/json-path.ts'
import { type JsonSyntaxFault, MAX_DEPTH, MAX_VALUES, type ScannedJson } from '../json/json-scan.ts'

const require = createRequire(import.meta.url)
/** Loaded when needed, because an import would cost time at start. */
const yaml = () => require('yaml') as typeof import('yaml')

/**
 * Reads YAML 1.2 (core schema) as JSON. An alias counts as a copy of what it names, so that few lines cannot exceed the
 * bounds of JSON files. What JSON cannot write is a fault.
 */
export function readYaml(text: string): ScannedJson | JsonSyntaxFault {
  try {
    // The library would compare each key with each other key. `Reading` finds keys that are written twice.
    const options = { version: '1.2', prettyErrors: false, uniqueKeys: false } as const
    const document = yaml().parseDocument(text, options)
    const error: YAMLError | undefined = document.errors[0] ?? document.warnings[0]
    if (error !== undefined) return { offset: error.pos[0], reason: `is not YAML: ${error.message}` }
    return new Reading(document).read()
  } catch (error) {
    if (error instanceof Unreadable) return { offset: error.offset, reason: error.message }
    // The library recurses, so deep nesting overflows the stack.
    if (error instanceof RangeError) return { offset: 0, reason: `must be nested at most ${MAX_DEPTH} deep` }
    throw error
  }
}

class Unreadable extends Error {
  readonly offset: number

  constructor(node: Node | null, reason: string) {
    super(reason)
    this.offset = node?.range?.[0] ?? 0
  }
}

class Reading {
  readonly #offsets = new Map<string, number>()
  readonly #repeated: { path: string; first: number }[] = []
  readonly #document: Document.Parsed
  readonly #named = new Map<Alias, Node | undefined>()
  #values = 0

  constructor(document: Document.Parsed) {
    const anchors = new Map<string, Node>()
    this.#document = document
    yaml().visit(document, {
      Alias: (_, alias) => void this.#named.set(alias, anchors.get(alias.source)),
      Value: (_, node) => {
        if (node.anchor !== undefined) anchors.set(node.anchor, node)
      },
    })
  }

  read(): ScannedJson {
    const value = this.#valueOf(this.#document.contents, '$', 0)
    return { value, offsets: this.#offsets, repeated: this.#repeated }
  }

  #valueOf(node: Node | null, path: string, depth: number): unknown {
    const { isAlias, isMap, isSeq, isScalar } = yaml()
    if (++this.#values > MAX_VALUES) throw new Unreadable(node, `must have at most ${MAX_VALUES} values`)
    if (depth > MAX_DEPTH) throw new Unreadable(node, `must be nested at most ${MAX_DEPTH} deep`)
    if (node === null) return null
    if (!this.#offsets.has(path)) this.#offsets.set(path, node.range?.[0] ?? 0)
    if (isAlias(node)) {
      const named = this.#named.get(node)
      if (named === undefined) throw new Unreadable(node, `is an alias without its anchor: *${node.source}`)
      return this.#valueOf(named, path, depth + 1)
    }
    if (isScalar(node)) return jsonScalar(node, node.value)
    if (isSeq(node)) {
      return node.items.map((item, index) =>
        this.#valueOf(item as ParsedNode, `${path}[${index}]`, depth + 1),
      )
    }
    if (!isMap(node)) throw new Unreadable(node, 'must be a value that JSON can have')
    const seen = new Map<string, number>()
    return Object.fromEntries(
      node.items.map((pair) => {
        const { key, value } = pair as Pair<ParsedNode, ParsedNode | null>
        const name = isScalar(key) ? keyOf(key, key.source ?? key.value) : keyOf(key, undefined)
        const below = childPath(path, name)
        const first = seen.get(name)
        if (first !== undefined) this.#repeated.push({ path: below, first })
        seen.set(name, key.range[0])
        this.#offsets.set(below, key.range[0])
        return [name, this.#valueOf(value, below, depth + 1)]
      }),
    )
  }
}

function jsonScalar(node: Node, value: unknown): unknown {
  const isNoJson =
    typeof value === 'number' ? !Number.isFinite(value) : typeof value === 'object' && value !== null
  if (isNoJson) throw new Unreadable(node, 'must be a value that JSON can have')
  return value
}

/** Keys of JSON are texts: `200` is `"200"`. */
function keyOf(node: Node, source: unknown): string {
  if (source === '<<')
    throw new Unreadable(node, 'must not be "<<", which YAML 1.2 does not have: write the keys out')
  if (typeof source === 'object' || source === undefined)
    throw new Unreadable(node, 'must have texts as keys')
  return String(source)
}
