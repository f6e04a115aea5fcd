import { parametersOf, withoutNames } from '../../edge/rules/path-template.ts'
import type { Fault } from '../faults.ts'
import { closestTo, didYouMean } from '../json/did-you-mean.ts'
import { pathOfPointer } from '../json/json-path.ts'
import type { WrittenGateway, WrittenRoute } from '../keys/gateway-keys.ts'
import { loadFile, type ReadFile } from '../load-file.ts'
import { methodSet, methodsMeet } from '../rules/method-rules.ts'
import { foldedPattern, type OperationRow } from '../rules/row-rules.ts'
import { sunsetFault } from '../rules/sending-rules.ts'
import type { OpenApiSettings, RouteAuth } from '../settings.ts'
import { type OperationPlace, OperationRules, Unusable } from './compiled-operations.ts'
import { type ApiDescription, type ApiOperation, type OpenApiFile, parseOpenApi } from './openapi-document.ts'

type OwnRow = Pick<WrittenRoute, 'path' | 'methods' | 'validateRequests'>

interface DocumentedRow extends Keys {
  readonly path: string
  readonly methods: readonly string[]
  readonly auth: readonly RouteAuth[]
  readonly scopes: readonly (readonly string[])[]
  readonly documentedAt: string
  readonly laidAt: Readonly<Record<string, number>>
}

type ValidatedOperations = Readonly<Record<string, OperationPlace>>

export interface DocumentedRoutes {
  readonly openapi: OpenApiSettings | undefined
  readonly rows: readonly DocumentedRow[]
  /** For each of the file's rows, then for each of `rows`: the operations whose requests are validated. */
  readonly operations: readonly (ValidatedOperations | undefined)[]
  readonly faults: readonly Fault[]
  readonly unfit: readonly UnfitKey[]
}

/** At most this many faults name what was meant: comparing every row with every path would take minutes. */
const MAX_HINTS = 10
const RAW_AND_REWRITTEN =
  'must not be true for an operation that another row gives "rewrite": the path is either changed or left as it came; set "rawPath" to false in the more specific row'
const NONE = { rows: [], operations: [], unfit: [] }

/** Reads the document, and makes rows of the operations that no row of the file covers. */
export function documentedRoutes(
  written: WrittenGateway['openapi'],
  own: readonly OwnRow[],
  readFile: ReadFile,
): DocumentedRoutes {
  if (written === undefined) return { ...NONE, openapi: undefined, faults: [] }
  const options: OpenApiFile = {
    schemes: {},
    validateRequests: false,
    ...(typeof written === 'string' ? { file: written } : written),
  }
  const { file } = options
  const patterns = Map.groupBy(own.keys(), (index) => foldedPattern(own[index]?.path ?? ''))
  const coveringOf = (operation: Operation) =>
    patterns.get(foldedPattern(operation.path))?.find((index) => isFor(own[index] ?? {}, operation))
  const isReplaced = (operation: Operation) => coveringOf(operation) !== undefined
  const { value, faults } = loadFile(file, (_, text) => parseOpenApi(options, text, isReplaced), {
    readFile,
    namedBy: '"openapi"',
  })
  if (faults !== undefined) return { ...NONE, openapi: undefined, faults }
  return merged(options, value.value, own, coveringOf)
}

/** @param coveringOf the index of the file's row that replaces an operation */
function merged(
  options: OpenApiFile,
  api: ApiDescription,
  own: readonly OwnRow[],
  coveringOf: (operation: Operation) => number | undefined,
): DocumentedRoutes {
  const { file, validateRequests } = options
  const laid = laidOver(options.rows ?? [], api.operations)
  const validated: ValidatedOperations[] = own.map(() => ({}))
  const rows: DocumentedRow[] = []
  const operations: ValidatedOperations[] = []
  const faults: Fault[] = []
  for (const same of Map.groupBy(api.operations, requestOf).values()) {
    const [first] = same as [ApiOperation, ...ApiOperation[]]
    const twice = `has a path that may be taken for ${JSON.stringify(first.path)}, which has this method too`
    const different = same.filter((one) => one === first || !isSameRequest(one, first))
    for (const operation of different) {
      const { path, method, auth, scopes, pointer } = operation
      // If several operations fit one request, none validates it, because nothing says which is meant.
      const validatedBy = (written: OperationRow['validateRequests']): ValidatedOperations =>
        written === false || different.length < same.length
          ? {}
          : { [method]: { path, pointer, skipsPatterns: (written ?? validateRequests) === 'skip-patterns' } }
      const covering = coveringOf(operation)
      const reason = operation === first ? nearlySame(path, own, covering) : twice
      if (reason !== undefined) faults.push({ file, path: pathOfPointer(pointer), reason })
      if (covering === undefined) {
        const { keys, laidAt } = laid.keysOf(operation)
        const documentedAt = `${file}#${pointer}`
        rows.push({ ...keys, path, methods: [method], auth, scopes, documentedAt, laidAt })
        operations.push(validatedBy(keys.validateRequests))
      } else {
        validated[covering] = { ...validated[covering], ...validatedBy(own[covering]?.validateRequests) }
      }
    }
  }
  const unfit = laid.unfit()
  if (validateRequests === false || faults.length > 0) {
    const openapi = { file, hash: api.hash, document: undefined, skippedPatterns: [] }
    return { openapi, rows, operations: [], faults, unfit }
  }
  const all = [...validated, ...operations].map((one) => (Object.keys(one).length > 0 ? one : undefined))
  const { found, skippedPatterns } = compiled(file, api, all)
  const openapi = { file, hash: api.hash, document: api.document, skippedPatterns }
  return { openapi, rows, operations: all, faults: found, unfit }
}

function requestOf({ path, method }: Operation): string {
  return `${method} ${foldedPattern(path)}`
}

/** True for operations that are one row: they differ only after "#", and the same callers may call them. */
function isSameRequest(one: ApiOperation, other: ApiOperation): boolean {
  const callersOf = ({ auth, scopes }: ApiOperation) => JSON.stringify([auth, scopes])
  return (
    (one.fragment ?? other.fragment) !== undefined &&
    one.auth.length > 0 &&
    withoutNames(one.path) === withoutNames(other.path) &&
    callersOf(one) === callersOf(other)
  )
}

function nearlySame(path: string, own: readonly OwnRow[], covering: number | undefined): string | undefined {
  const other = covering === undefined ? undefined : own[covering]?.path
  if (other === undefined || withoutNames(other) === withoutNames(path)) return undefined
  return `has the path ${JSON.stringify(path)}, which differs from ${JSON.stringify(other)} of $.routes[${covering}] only in letter case or a closing slash: write one as the other`
}

/** Compiles the schemas to find unusable ones before the first request. */
function compiled(
  file: string,
  { document }: ApiDescription,
  operations: DocumentedRoutes['operations'],
): { readonly found: readonly Fault[]; readonly skippedPatterns: readonly string[] } {
  const faultOf = ({ pointer, message }: Unusable) => ({
    file,
    path: pathOfPointer(pointer),
    reason: message,
  })
  try {
    const rules = new OperationRules(document, placesOf(operations))
    return { found: rules.check().map(faultOf), skippedPatterns: rules.skippedPatterns() }
  } catch (error) {
    if (!(error instanceof Unusable)) throw error
    return { found: [faultOf(error)], skippedPatterns: [] }
  }
}

export function placesOf(operations: Iterable<ValidatedOperations | undefined>): OperationPlace[] {
  return [...operations].flatMap((one) => (one === undefined ? [] : Object.values(one)))
}

type Keys = Partial<Omit<OperationRow, 'path' | 'methods'>>
interface UnfitKey {
  /** Such as `[2].path`. */
  readonly at: string
  readonly reason: string
}

type Operation = Pick<ApiOperation, 'path' | 'method'>

function laidOver(rows: readonly OperationRow[], operations: readonly Operation[]) {
  const used = new Set<OperationRow>()
  const clashes = new Map<string, UnfitKey>()
  // More specific rows come last, so their keys replace others.
  const ordered = rows.toSorted((one, other) => rankOf(one.path) - rankOf(other.path))
  return {
    /** The keys for an operation, and for each key the index of its row. */
    keysOf(operation: Operation) {
      const fitting = ordered.filter((row) => covers(row.path, operation.path) && isFor(row, operation))
      for (const row of fitting) used.add(row)
      const places = fitting.flatMap((row) =>
        Object.keys(row).map((key) => [key, rows.indexOf(row)] as const),
      )
      const keys: Keys = Object.assign({}, ...fitting.map((row) => keysFor(row, operation.path)))
      const laidAt = Object.fromEntries(places)
      const clash = (key: 'rawPath' | 'sunset', reason: string | undefined) => {
        const at = `[${laidAt[key]}].${key}`
        if (reason !== undefined) clashes.set(at, { at, reason })
      }
      clash('rawPath', keys.rawPath && keys.rewrite ? RAW_AND_REWRITTEN : undefined)
      clash('sunset', sunsetFault(keys))
      return { keys, laidAt }
    },
    /** Rows that `keysOf` never used, names in `mask` that no operation has, and keys that exclude each other. */
    unfit: (): UnfitKey[] => {
      let hints = 0
      const unfit = [...rows.entries()].flatMap(([index, row]) =>
        used.has(row)
          ? unfitMask(row, operations).map(({ at, reason }) => ({ at: `[${index}]${at}`, reason }))
          : [{ at: `[${index}].path`, reason: whyUnfit(row, operations, ++hints <= MAX_HINTS) }],
      )
      return [...unfit, ...clashes.values()]
    },
  }
}

/** Sorts a prefix before a whole path, and a shorter prefix before a longer one. */
function rankOf(path: string): number {
  return path.endsWith('/*') ? path.length : Number.POSITIVE_INFINITY
}

function covers(path: string, operation: string): boolean {
  return path.endsWith('/*') ? operation.startsWith(path.slice(0, -1)) : operation === path
}

function isFor({ methods }: Pick<OperationRow, 'methods'>, { method }: Operation): boolean {
  return methodsMeet(methodSet(methods), new Set([method]))
}

function keysFor({ path: own, methods: _, ...keys }: OperationRow, path: string): Keys {
  const prefix = keys.rewrite?.prefix
  if (prefix === undefined) return keys
  // An operation's row has a whole path and no prefix, so its `rewrite` needs a whole path too.
  const rest = path.slice(own.length - '/*'.length)
  return { ...keys, rewrite: { path: prefix === '/' ? rest : prefix + rest } }
}

/** Names in `mask` that no operation of the row has. A prefix may mask names that only some operations have. */
function unfitMask(row: OperationRow, operations: readonly Operation[]): UnfitKey[] {
  if (row.mask === undefined) return []
  const fitting = operations.filter((one) => covers(row.path, one.path) && isFor(row, one))
  const names = new Set(fitting.flatMap(({ path }) => parametersOf(path).map(({ name }) => name)))
  return row.mask.flatMap((name, index) => {
    if (names.has(name)) return []
    const fit = `must be a parameter of an operation that ${JSON.stringify(row.path)} fits`
    return [
      { at: `.mask[${index}]`, reason: `${fit}, but is ${JSON.stringify(name)}${didYouMean(name, names)}` },
    ]
  })
}

function whyUnfit(row: OperationRow, operations: readonly Operation[], isHinted: boolean): string {
  const fits = 'fits no operation of the document'
  const there = operations.filter(({ path }) => covers(row.path, path))
  if (there.some((operation) => isFor(row, operation)))
    return 'has no effect: rows of $.routes take the place of every operation that it fits'
  if (there.length > 0) {
    const methods = [...new Set(there.map(({ method }) => method))].join(', ')
    return `${fits}: ${JSON.stringify(row.path)} has ${methods} there, not ${row.methods?.join(', ')}`
  }
  const paths = isHinted ? [...new Set(operations.map(({ path }) => path))] : []
  const meant =
    paths.find((path) => withoutNames(path) === withoutNames(row.path)) ?? closestTo(row.path, paths)
  const below = paths.filter((path) => path.startsWith(`${row.path}/`) || path.endsWith(row.path)).slice(0, 3)
  const near = meant === undefined ? below : [meant]
  const hint =
    near.length === 0 ? '' : `; did you mean ${near.map((path) => JSON.stringify(path)).join(' or ')}?`
  return `${fits}: none has the path ${JSON.stringify(row.path)}${hint}`
}
