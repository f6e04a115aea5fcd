import type { Ajv2020 } from 'ajv/dist/2020.js'
import { isInCalendar } from '../../edge/syntax/timestamp.ts'
import { sortedKeys } from '../json/json-path.ts'
import { COUNTED } from './openapi-schemas.ts'
import { takeSteps } from './schema-fits.ts'

/** Formats of texts that are checked; others are ignored. Each check takes time linear in the text. */
export const FORMATS: Readonly<Record<string, true | ((text: string) => boolean)>> = {
  uuid: matches(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i),
  date: isDate,
  'date-time': isDateTime,
  ipv4: matches(/^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}$/),
  byte: matches(/^[A-Za-z0-9+/]*={0,2}$/),
}

interface Decimal {
  readonly digits: bigint
  readonly exponent: number
}

/** Replaces keywords of the library whose results are wrong, or whose check callers could make costly. */
export function replaceKeywords(ajv: Ajv2020): Ajv2020 {
  // The library compares each item with each other item.
  ajv.removeKeyword('uniqueItems')
  ajv.addKeyword({
    keyword: 'uniqueItems',
    type: 'array',
    schemaType: 'boolean',
    validate: (unique: boolean, items: readonly unknown[]) => !unique || areUnique(items),
  })
  // The library divides binary fractions, for which 19.99 is no multiple of 0.01.
  ajv.removeKeyword('multipleOf')
  ajv.addKeyword({
    keyword: 'multipleOf',
    type: 'number',
    schemaType: 'number',
    validate: (divisor: number, value: number) => isMultiple(value, divisor),
    error: { message: ({ schema }) => `must be a multiple of ${schema}` },
  })
  return ajv.addKeyword({ keyword: COUNTED, before: 'not', errors: false, validate: countApplied })
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

/** Divides decimals. Exact up to 15 digits. @throws TooComplex */
function isMultiple(value: number, divisor: number): boolean {
  if (Number.isSafeInteger(value) && Number.isSafeInteger(divisor)) return value % divisor === 0
  if (!Number.isFinite(value) || !Number.isFinite(divisor) || divisor === 0) return false
  const [one, other] = [decimalOf(value), decimalOf(divisor)]
  const exponent = Math.min(one.exponent, other.exponent)
  takeSteps(50 + one.exponent + other.exponent - 2 * exponent)
  return scaled(one, exponent) % scaled(other, exponent) === 0n
}

function decimalOf(value: number): Decimal {
  const [whole = '', fraction = '', power = '0'] =
    /^(-?\d+)(?:\.(\d+))?(?:e(.+))?$/.exec(String(value))?.slice(1) ?? []
  return { digits: BigInt(whole + fraction), exponent: Number(power) - fraction.length }
}

function scaled({ digits, exponent }: Decimal, to: number): bigint {
  return digits * 10n ** BigInt(exponent - to)
}

function matches(pattern: RegExp): (text: string) => boolean {
  return (text) => pattern.test(text)
}

function isDate(text: string): boolean {
  return /^\d{4}-\d{2}-\d{2}$/.test(text) && isInCalendar(text)
}

function isDateTime(text: string): boolean {
  const [, date = '', hour, second] =
    /^(\d{4}-\d{2}-\d{2})[Tt]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(?:\.\d{1,9})?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/.exec(
      text,
    ) ?? []
  return hour !== undefined && second !== undefined && isDate(date)
}
