import type { ErrorObject, ValidateFunction } from 'ajv/dist/2020.js'
import { beginSteps, TooComplex } from './check-steps.ts'
import { childPointer } from './references.ts'

const MAX_POINTER = 200

/** What is wrong with a value, in words for the caller. */
export interface Misfit {
  /** A JSON pointer within the value. */
  readonly pointer: string
  /** Without the value itself. */
  readonly reason: string
}

/** @returns undefined when the value fits */
export type Fits = (value: unknown) => Misfit | undefined

/** Whether a schema applies itself to the very value that it is applied to. */
export function appliesItselfEndlessly(validate: ValidateFunction): boolean {
  for (const value of [{}, [], '', 0, null]) {
    beginSteps()
    try {
      validate(value)
    } catch (error) {
      if (error instanceof RangeError || error instanceof TooComplex) return true
      throw error
    }
  }
  return false
}

export function fitsBy(validate: ValidateFunction): Fits {
  return (value) => {
    beginSteps()
    try {
      return validate(value) ? undefined : misfitOf(validate.errors?.[0])
    } catch (error) {
      // A stack has an end where a schema applies itself to the same value again and again.
      if (error instanceof TooComplex || error instanceof RangeError)
        return { pointer: '', reason: 'is too complex to be checked' }
      throw error
    }
  }
}

/** @returns of each value whether it fits; their steps count together, and once there are too many no further value fits */
export type EachFits = (values: readonly unknown[]) => boolean[]

export function eachFitsBy(validate: ValidateFunction): EachFits {
  return (values) => {
    beginSteps()
    let isTooComplex = false
    return values.map((value) => {
      try {
        return !isTooComplex && validate(value)
      } catch (error) {
        if (!(error instanceof TooComplex || error instanceof RangeError)) throw error
        isTooComplex = true
        return false
      }
    })
  }
}

function misfitOf(error: ErrorObject | undefined): Misfit {
  const { instancePath = '', params = {}, message = 'does not fit', keyword } = error ?? {}
  const key = params.missingProperty ?? params.additionalProperty ?? params.unevaluatedProperty
  const pointer = key === undefined ? instancePath : childPointer(instancePath, key)
  const said = keyword === 'uniqueItems' ? 'must not have equal entries' : message
  const isMissing = params.missingProperty !== undefined
  const reason = isMissing ? 'is missing' : key === undefined ? said : 'is not among the known members'
  return { pointer: pointer.length > MAX_POINTER ? `${pointer.slice(0, MAX_POINTER)}…` : pointer, reason }
}
