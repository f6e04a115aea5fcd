import type { Ajv2020 } from 'ajv/dist/2020.js'
import { takeSteps } from './check-steps.ts'
import { isMultiple } from './decimal-multiple.ts'
import { COUNTED } from './openapi-schemas.ts'

/** Puts our own keywords in the place of those of the library that callers could make trouble with. */
export function replaceKeywords(ajv: Ajv2020): void {
  // That of the library compares each with each.
  ajv.removeKeyword('uniqueItems')
  ajv.addKeyword({
    keyword: 'uniqueItems',
    type: 'array',
    schemaType: 'boolean',
    validate: (unique: boolean, items: readonly unknown[]) => !unique || areUnique(items),
  })
  // That of the library divides binary fractions, and 19.99 is no multiple of 0.01 then.
  ajv.removeKeyword('multipleOf')
  ajv.addKeyword({
    keyword: 'multipleOf',
    type: 'number',
    schemaType: 'number',
    validate: (divisor: number, value: number) => isMultiple(value, divisor),
    error: { message: ({ schema }) => `must be a multiple of ${schema}` },
  })
  ajv.addKeyword({ keyword: COUNTED, before: 'not', errors: false, validate: countApplied })
}

function countApplied(steps: number): boolean {
  takeSteps(steps)
  return true
}

function areUnique(items: readonly unknown[]): boolean {
  const seen = new Set<string>()
  for (const item of items) {
    const text = JSON.stringify(item, sortedKeys)
    takeSteps(text.length)
    if (seen.has(text)) return false
    seen.add(text)
  }
  return true
}

function sortedKeys(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1)))
}
