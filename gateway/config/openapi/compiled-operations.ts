import { createRequire } from 'node:module'
import type { Ajv2020, ValidateFunction } from 'ajv/dist/2020.js'
import { type ParameterPlace, parametersOf } from '../../edge/rules/path-template.ts'
import { bareMediaType, type MediaParameters, mediaParametersOf } from '../../edge/syntax/media-type.ts'
import { FORMATS, replaceKeywords } from './keywords.ts'
import { DocumentPatterns } from './linear-pattern.ts'
import { referencesIn } from './openapi-schemas.ts'
import { at, childPointer, followed, type Located } from './references.ts'
import {
  appliesItselfEndlessly,
  beginSteps,
  type EachFits,
  eachFitsBy,
  type Fits,
  fitsBy,
} from './schema-fits.ts'

export interface RequestParameter {
  readonly in: 'path' | 'query' | 'header'
  /** In lower case for a header. */
  readonly name: string
  readonly required: boolean
  readonly form: ParameterForm
  /** Only for a parameter in the path. */
  readonly at: ParameterPlace | undefined
  /** JSON types that its text, or each text of a list, may stand for; empty: it stays a text. */
  readonly types: ReadonlySet<string>
  readonly fits: Fits
  /** Only for lists whose items may be a text or another type. */
  readonly eachFits?: EachFits
}

export interface RequestContent {
  /** In lower case: `application/json`, or a range such as `text/*`. */
  readonly type: string
  /** Parameters that tell entries of one type apart. Undefined when they cannot be read. */
  readonly parameters: MediaParameters | undefined
  /** Undefined: the type is not JSON, or has no schema. */
  readonly fits: Fits | undefined
}

export interface RequestRules {
  readonly parameters: readonly RequestParameter[]
  readonly bodyRequired: boolean
  /** Undefined: the document describes no body. */
  readonly content: readonly RequestContent[] | undefined
}

export interface OperationPlace {
  readonly path: string
  readonly pointer: string
  /** True: patterns that cannot be matched in bounded time are not checked. False: they are faults. */
  readonly skipsPatterns?: boolean
}

const require = createRequire(import.meta.url)
const IGNORED_HEADERS: ReadonlySet<string> = new Set(['accept', 'content-type', 'authorization'])
const STRUCTURES: ReadonlySet<string> = new Set(['object', 'array'])
/** The JSON MIME types of the WHATWG's MIME Sniffing. */
export const JSON_TYPE = /^(?:application|text)\/json$|^[^/]+\/[^/]+\+json$/

/** A part of the document that cannot be compiled. */
export class Unusable extends Error {
  readonly pointer: string

  constructor(pointer: string, reason: string) {
    super(reason)
    this.pointer = pointer
  }
}

/** The rules of each operation, compiled when first asked for. To compile all at a reload would delay requests. */
export class OperationRules {
  readonly #compiler: Compiler
  readonly #skipping: Compiler | undefined
  readonly #places: ReadonlyMap<string, OperationPlace>
  readonly #compiled = new Map<string, RequestRules>()

  /** @throws Unusable */
  constructor(document: object, places: readonly OperationPlace[]) {
    this.#compiler = new Compiler(document, false)
    this.#skipping = places.some(({ skipsPatterns }) => skipsPatterns)
      ? new Compiler(document, true)
      : undefined
    this.#places = new Map(places.map((place) => [keyOf(place), place]))
  }

  /** @throws Unusable */
  get(place: OperationPlace): RequestRules | undefined {
    const key = keyOf(place)
    const known = this.#compiled.get(key)
    if (known !== undefined || !this.#places.has(key)) return known
    const rules = ((place.skipsPatterns && this.#skipping) || this.#compiler).rulesOf(place)
    this.#compiled.set(key, rules)
    return rules
  }

  skippedPatterns(): readonly string[] {
    return [...new Set([this.#compiler, this.#skipping].flatMap((one) => [...(one?.patterns.skipped ?? [])]))]
  }

  check(): Unusable[] {
    const faults = new Map<string, Unusable>()
    for (const place of this.#places.values()) {
      try {
        this.get(place)
      } catch (error) {
        if (!(error instanceof Unusable)) throw error
        faults.getOrInsert(error.pointer, error)
      }
    }
    return [...faults.values()]
  }
}

/** The key has the path, because two paths may share a path item with parameters in different places. */
function keyOf({ path, pointer }: OperationPlace): string {
  return `${pointer} ${path}`
}

/** Validates schemas themselves. All documents share it, because compiling it takes as long as compiling a document. */
let ofSchemas: Ajv2020 | undefined

class Compiler {
  readonly #document: object
  readonly #ajv: Ajv2020
  /** The places that each checked schema refers to. */
  readonly #references = new Map<string, readonly string[]>()
  readonly patterns: DocumentPatterns

  constructor(document: object, skipsPatterns: boolean) {
    this.#document = document
    this.patterns = new DocumentPatterns(skipsPatterns)
    // Loaded here, because an import would cost time at start.
    const { Ajv2020 } = require('ajv/dist/2020.js') as typeof import('ajv/dist/2020.js')
    const options = {
      // OpenAPI has keywords of its own.
      strict: false,
      // Makes errors name the branches that they come from.
      verbose: true,
      logger: false,
      validateSchema: false,
      ownProperties: true,
      // 1e400 is refused, because services read it in different ways.
      strictNumbers: true,
      formats: FORMATS,
      // Otherwise compiling takes several times as long, and a first request waits for it.
      inlineRefs: false,
      code: { optimize: false },
    } as const
    ofSchemas ??= replaceKeywords(new Ajv2020(options))
    const code = { ...options.code, regExp: this.patterns.asRegExp() }
    this.#ajv = replaceKeywords(new Ajv2020({ ...options, code }))
    asUnusable('', () => this.#ajv.addSchema(document, 'api'))
  }

  rulesOf({ path, pointer }: OperationPlace): RequestRules {
    const { requestBody } = Object(at(this.#document, pointer)) as { requestBody?: unknown }
    const body =
      requestBody === undefined
        ? undefined
        : this.#followed({ value: requestBody, pointer: `${pointer}/requestBody` })
    return {
      parameters: this.#parametersOf(path, pointer),
      bodyRequired: Object(body?.value).required === true,
      content: body && this.#contentOf(body),
    }
  }

  #contentOf(body: Located): RequestContent[] {
    const content = Object(Object(body.value).content) as Readonly<Record<string, unknown>>
    return Object.entries(content).map(([name, media]) => {
      const type = bareMediaType(name)
      const found = this.#followed({ value: media, pointer: childPointer(`${body.pointer}/content`, name) })
      const schema = `${found.pointer}/schema`
      // Under a media range, `type: string` often describes a file of any type, not JSON.
      const isStructure = () => !this.#typesOf(schema).isDisjointFrom(STRUCTURES)
      const isJson = JSON_TYPE.test(type) || (type.endsWith('/*') && isStructure())
      const isChecked = isJson && Object(found.value).schema !== undefined
      return {
        type,
        parameters: mediaParametersOf(name),
        fits: isChecked ? fitsBy(this.#validatorOf(schema)) : undefined,
      }
    })
  }

  /** A parameter of the operation replaces one of the path with the same name. */
  #parametersOf(path: string, pointer: string): RequestParameter[] {
    const item = pointer.replace(/(?:\/additionalOperations)?\/[^/]*$/, '')
    const own = this.#listOf(`${pointer}/parameters`)
    const common = this.#listOf(`${item}/parameters`)
    const nameOf = ({ value }: Located) => JSON.stringify([Object(value).in, Object(value).name])
    const names = new Set(own.map(nameOf))
    return [...own, ...common.filter((one) => !names.has(nameOf(one)))].flatMap((one) =>
      this.#parameter(path, one),
    )
  }

  #listOf(pointer: string): Located[] {
    const list = at(this.#document, pointer)
    if (!Array.isArray(list)) return []
    return list.map((value, index) => this.#followed({ value, pointer: childPointer(pointer, index) }))
  }

  #parameter(path: string, { value, pointer }: Located): RequestParameter[] {
    const written = Object(value) as Readonly<Record<string, unknown>>
    const place = written.in
    if (place !== 'path' && place !== 'query' && place !== 'header') return []
    if (typeof written.name !== 'string') throw new Unusable(pointer, 'must have a text as its name')
    const name = place === 'header' ? written.name.toLowerCase() : written.name
    if (place === 'header' && IGNORED_HEADERS.has(name)) return []
    const media = Object.keys(Object(written.content))[0]
    const schema =
      media === undefined ? `${pointer}/schema` : `${childPointer(`${pointer}/content`, media)}/schema`
    const inPath = place === 'path' ? parametersOf(path).find((one) => one.name === name) : undefined
    if (place === 'path' && inPath === undefined)
      throw new Unusable(pointer, 'is not in the template of its path')
    const known = this.#typesOf(schema)
    const items = (known.has('array') ? this.#schemasOf(schema) : [])
      .map((one) => `${one.pointer}/items`)
      .filter((one) => at(this.#document, one) !== undefined)
    const itemTypes = new Set(items.flatMap((one) => [...this.#typesOf(one)]))
    const form =
      media === undefined
        ? formOf(written, known, itemTypes)
        : JSON_TYPE.test(bareMediaType(media))
          ? 'json'
          : 'unread'
    const isChecked = at(this.#document, schema) !== undefined && form !== 'unread'
    const fits: Fits = isChecked ? fitsBy(this.#validatorOf(schema)) : () => undefined
    const mayBeEmpty = place === 'query' && written.allowEmptyValue === true
    return [
      {
        in: place,
        name,
        required: place === 'path' || (written.required === true && !isSpread(written, known)),
        form,
        at: inPath,
        types: known.union(itemTypes),
        fits: mayBeEmpty ? (value) => (value === '' ? undefined : fits(value)) : fits,
        ...(items.length === 1 && itemTypes.has('string') && itemTypes.size > 1
          ? { eachFits: eachFitsBy(this.#validatorOf(items[0] as string)) }
          : {}),
      },
    ]
  }

  /** The schemas of one value: that at a pointer, the one it refers to, and their `allOf`, `anyOf` and `oneOf` branches. */
  #schemasOf(pointer: string, seen = new Set<string>()): Located[] {
    if (seen.has(pointer) || at(this.#document, pointer) === undefined) return []
    seen.add(pointer)
    const found = this.#followed({ value: at(this.#document, pointer), pointer })
    const branches = ['allOf', 'anyOf', 'oneOf'].flatMap((key) => {
      const written = Object(found.value)[key]
      const count = Array.isArray(written) ? written.length : 0
      return Array.from({ length: count }, (_, index) => `${found.pointer}/${key}/${index}`)
    })
    return [found, ...branches.flatMap((one) => this.#schemasOf(one, seen))]
  }

  #typesOf(pointer: string): ReadonlySet<string> {
    const types = new Set<string>()
    for (const { value } of this.#schemasOf(pointer)) {
      const schema = Object(value) as Readonly<Record<string, unknown>>
      for (const type of [schema.type].flat()) if (typeof type === 'string') types.add(type)
      for (const one of Array.isArray(schema.enum) ? schema.enum : []) types.add(typeNameOf(one))
      if ('const' in schema) types.add(typeNameOf(schema.const))
    }
    return types
  }

  #followed(located: Located): Located {
    const found = followed(this.#document, located)
    if (typeof found === 'string') throw new Unusable(located.pointer, found)
    return found
  }

  #validatorOf(pointer: string): ValidateFunction {
    const fragment = pointer.split('/').map(encodeURIComponent).join('/')
    const reached = new Set([pointer])
    for (const place of reached) {
      const below = this.#references.getOrInsertComputed(place, () => this.#checkedReferences(place))
      for (const one of below) reached.add(one)
    }
    const validate = asUnusable(pointer, () => this.#ajv.compile({ $ref: `api#${fragment}` }))
    if (appliesItselfEndlessly(validate))
      throw new Unusable(pointer, 'applies itself to the same value without end')
    return validate
  }

  /** Checks a schema by the schema of schemas. @returns the places that it refers to @throws Unusable */
  #checkedReferences(pointer: string): string[] {
    const written = at(this.#document, pointer)
    if (written === undefined) return []
    // Definitions are checked where they are referred to.
    const { $defs: _, definitions: __, ...own } = Object(written)
    const schema = typeof written !== 'object' || Array.isArray(written) ? written : own
    const validator = ofSchemas as Ajv2020
    // `uniqueItems` takes steps, and a request before may have used them up.
    beginSteps()
    if (asUnusable(pointer, () => validator.validateSchema(schema as object)) === false) {
      throw new Unusable(pointer, `is not a valid schema: ${validator.errorsText(validator.errors)}`)
    }
    return referencesIn(schema)
  }
}

/** @throws Unusable in place of what the library throws */
function asUnusable<T>(pointer: string, run: () => T): T {
  try {
    return run()
  } catch (error) {
    throw new Unusable(pointer, `cannot be used: ${(error as Error).message}`)
  }
}

function typeNameOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  return Number.isInteger(value) ? 'integer' : typeof value
}

export type ParameterForm = 'single' | 'repeated' | 'commas' | 'json' | 'unread'

/** True for an object whose members stand in the query: `?R=1&G=2`, `?filter[a]=1`. */
function isSpread(
  { in: place, style = 'form', explode, content }: Readonly<Record<string, unknown>>,
  types: ReadonlySet<string>,
): boolean {
  if (place !== 'query' || content !== undefined) return false
  return style === 'deepObject' || (style === 'form' && explode !== false && types.has('object'))
}

/** A list of objects or lists is unread, because OpenAPI defines no form for it. */
function formOf(
  { in: place, style, explode }: Readonly<Record<string, unknown>>,
  types: ReadonlySet<string>,
  itemTypes: ReadonlySet<string>,
): ParameterForm {
  const usual = place === 'query' ? 'form' : 'simple'
  if ((style ?? usual) !== usual || types.has('object') || !itemTypes.isDisjointFrom(STRUCTURES))
    return 'unread'
  if (!types.has('array')) return 'single'
  return place === 'query' && explode !== false ? 'repeated' : 'commas'
}
