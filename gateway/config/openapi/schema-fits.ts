import type { ValidateFunction } from 'ajv/dist/2020.js'
import { type Misfit, misfitOf } from './misfit.ts'

/** A value would take too long to be compared with its schema. */
export class TooComplex extends Error {}

/** Steps that the check of one value may take, each some 5 ns: 100 ms. */
const MAX_STEPS = 20_000_000

let steps = 0

/** Begins to count the steps of one check. What follows must be synchronous. */
export function beginSteps(): void {
  steps = 0
}

/** @throws TooComplex */
export function takeSteps(count: number): void {
  steps += count
  if (steps > MAX_STEPS) throw new TooComplex('it takes too many steps')
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
      return validate(value) ? undefined : misfitOf(validate.errors ?? [])
    } catch (error) {
      // A stack has an end where a schema applies itself to the same value again and again.
      if (error instanceof TooComplex || error instanceof RangeError)
        return { pointer: '', reason: 'is too complex to be checked' }
      throw error
    } finally {
      validate.errors = null
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
