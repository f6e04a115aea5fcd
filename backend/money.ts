/**
 * Money inside is a bigint of minor units (cents for EUR) and outside a decimal string. No number is ever a float:
 * 0.1 + 0.2 is not 0.3 there.
 */

/** Up to twelve digits before the point, so that no sum of amounts comes near the end of a 64-bit integer. */
export const AMOUNT_PATTERN = '^(0|[1-9][0-9]{0,11})(\\.[0-9]{1,4})?$'

/**
 * The minor units of a decimal string of the form {@link AMOUNT_PATTERN}; `undefined` when it has more decimals than
 * the currency (`minorUnits`) has. `12.5` and `12.50` are the same amount of EUR.
 */
export function toMinor(amount: string, minorUnits: number): bigint | undefined {
  const [whole = '', fraction = ''] = amount.split('.')
  if (fraction.length > minorUnits) return undefined
  return BigInt(whole + fraction.padEnd(minorUnits, '0'))
}

/** The decimal string of an amount of minor units, with all the decimals of the currency: `-50n` EUR is `-0.50`. */
export function fromMinor(amountMinor: bigint, minorUnits: number): string {
  const sign = amountMinor < 0n ? '-' : ''
  const digits = (amountMinor < 0n ? -amountMinor : amountMinor).toString().padStart(minorUnits + 1, '0')
  if (minorUnits === 0) return sign + digits
  return `${sign}${digits.slice(0, -minorUnits)}.${digits.slice(-minorUnits)}`
}
