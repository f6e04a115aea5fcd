import type { ErrorObject, ValidateFunction } from 'ajv/dist/2020.js'
import { childPointer } from './references.ts'

/** Thrown when a value would take too long to check. */
export class TooComplex extends Error {}

/** For one check, of one value or of a list: 100 ms, at some 5 ns a step. */
const MAX_STEPS = 20_000_000

let steps = 0

/** Begins to count the steps of one check, which must be synchronous. */
export function beginSteps(): void {
  steps = 0
}

/** @throws TooComplex */
export function takeSteps(count: number): void {
  steps += count
  if (steps > MAX_STEPS) throw new TooComplex('it takes too many steps')
}

export type Fits = (value: unknown) => Misfit | undefined

const TOO_COMPLEX: Misfit = { pointer: '', reason: 'is too complex to be checked' }

/** @returns undefined when the value is too complex, or nested so deeply that the stack overflows */
function tried<V, T>(run: (value: V) => T, value: V): T | undefined {
  try {
    return run(value)
  } catch (error) {
    if (error instanceof TooComplex || error instanceof RangeError) return undefined
    throw error
  }
}

export function appliesItselfEndlessly(validate: ValidateFunction): boolean {
  return [{}, [], '', 0, null].some((value) => {
    beginSteps()
    return tried(validate, value) === undefined
  })
}

export function fitsBy(validate: ValidateFunction): Fits {
  return (value) => {
    beginSteps()
    const fits = tried(validate, value)
    const errors = validate.errors ?? []
    validate.errors = null
    if (fits === true) return undefined
    return (fits === false && tried(misfitOf, errors)) || TOO_COMPLEX
  }
}

/** @returns for each value whether it fits; once there are too many steps together, no further value fits */
export type EachFits = (values: readonly unknown[]) => boolean[]

export function eachFitsBy(validate: ValidateFunction): EachFits {
  return (values) => {
    beginSteps()
    let isTooComplex = false
    return values.map((value) => {
      const fits = isTooComplex ? undefined : tried(validate, value)
      isTooComplex = fits === undefined
      return fits === true
    })
  }
}

export interface Misfit {
  readonly pointer: string
  readonly reason: string
}

/** An error with its causes: the failures of all branches of `anyOf` or `oneOf`, or of one failed subschema. */
interface Failure {
  readonly error: ErrorObject
  readonly branches: readonly Failure[]
  /** Index of the first error that belongs to it. */
  readonly begin: number
}

const MAX_POINTER = 200
/** Keywords whose error follows the error of one failed subschema, such as `then` for `if`. */
const OF_ONE_SCHEMA: ReadonlySet<string> = new Set(['if', 'propertyNames'])
const SEVERAL = 'fits more than one of the alternatives, and must fit exactly one'

/**
 * Finds the error that helps the caller most.
 *
 * @param errors all errors of one check, in Ajv's order; each schema stops at its first
 */
function misfitOf(errors: readonly ErrorObject[]): Misfit {
  if (errors.length === 0) return { pointer: '', reason: 'does not fit' }
  const { pointer, reason } = meant(failureAt(errors, errors.length - 1))
  return { pointer: pointer.length > MAX_POINTER ? `${pointer.slice(0, MAX_POINTER)}…` : pointer, reason }
}

function failureAt(errors: readonly ErrorObject[], end: number): Failure {
  const error = errors[end] as ErrorObject
  const branches: Failure[] = []
  let begin = end
  for (let left = branchCount(error); left > 0 && begin > 0; left--) {
    const branch = failureAt(errors, begin - 1)
    branches.unshift(branch)
    begin = branch.begin
  }
  const below = `${error.instancePath}/`
  if (error.keyword === 'contains')
    while (begin > 0 && errors[begin - 1]?.instancePath.startsWith(below)) begin -= 1
  return { error, branches, begin }
}

/** The number of branches that failed. The library stops at the second branch that fits. */
function branchCount({ keyword, params, schema }: ErrorObject): number {
  if (keyword !== 'anyOf' && keyword !== 'oneOf') return OF_ONE_SCHEMA.has(keyword) ? 1 : 0
  return Array.isArray(params.passingSchemas) ? params.passingSchemas[1] - 1 : (schema as unknown[]).length
}

/** The misfit of the branch that a discriminator names, else of the branch that fails deepest, which fits the most. */
function meant(failure: Failure): Misfit {
  const { error, branches } = failure
  if (Array.isArray(error.params.passingSchemas)) return { pointer: error.instancePath, reason: SEVERAL }
  if (branches.length === 0) return ownMisfit(error)
  const named = discriminated(failure)
  if (named !== undefined) return 'error' in named ? meant(named) : named
  const ofItsType = branches.filter(
    (branch) => branch.error.keyword !== 'type' || branch.error.instancePath !== error.instancePath,
  )
  if (ofItsType.length === 0) {
    const types = new Set(branches.flatMap((branch) => branch.error.params.type as string | string[]))
    return { pointer: error.instancePath, reason: `must be ${[...types].join(' or ')}` }
  }
  const misfits = ofItsType.map(meant)
  return misfits.reduce((best, one) => (depthOf(one) > depthOf(best) ? one : best))
}

/** The branch or misfit that a discriminator of OpenAPI leads to; undefined when it leads to none. */
function discriminated({ error, branches }: Failure): Failure | Misfit | undefined {
  const { parentSchema, data, instancePath, schema } = error
  const { propertyName, mapping, defaultMapping } = Object(parentSchema?.discriminator)
  if (typeof propertyName !== 'string' || typeof data !== 'object' || data === null) return undefined
  const value = Object.hasOwn(data, propertyName) ? Object(data)[propertyName] : undefined
  // An object is not a name, and `String({"toString": null})` would even throw.
  const name = typeof value === 'object' ? '' : value
  const references = (schema as unknown[]).map((branch) => Object(branch).$ref)
  const branchOf = (target: unknown) =>
    branches[references.findIndex((one) => one === target || one === `#/components/schemas/${target}`)]
  const mapped = Object.hasOwn(Object(mapping), String(name)) ? mapping[name] : name
  const branch = branchOf(mapped) ?? branchOf(defaultMapping)
  if (branch !== undefined || (name !== undefined && references.includes(undefined))) return branch
  const reason = name === undefined ? 'is missing' : 'must be equal to one of the allowed values'
  return { pointer: childPointer(instancePath, propertyName), reason }
}

function depthOf({ pointer }: Misfit): number {
  return pointer.split('/').length
}

function ownMisfit({ instancePath, params, message = 'does not fit', keyword }: ErrorObject): Misfit {
  const key = params.missingProperty ?? params.additionalProperty ?? params.unevaluatedProperty
  if (key === undefined)
    return {
      pointer: instancePath,
      reason: keyword === 'uniqueItems' ? 'must not have equal entries' : message,
    }
  const reason = params.missingProperty === undefined ? 'is not among the known members' : 'is missing'
  return { pointer: childPointer(instancePath, key), reason }
}
