import currencies from './iso-4217.json' with { type: 'json' }

/* Inside, money is a bigint of minor units (cents); outside, a decimal string. */

/** `minorUnits` is null where ISO 4217 has none, as for metals. */
interface Currency {
  readonly code: string
  readonly name: string
  readonly minorUnits: number | null
}

/** ISO 4217 list one, as published on 1 January 2026 by SIX, the maintenance agency; sorted by code. */
export const CURRENCIES: readonly Currency[] = currencies

const decimals = new Map(CURRENCIES.map(({ code, minorUnits }) => [code, minorUnits ?? 0]))

export function decimalsOf(code: string): number {
  return decimals.get(code) ?? 0
}

/** The pattern of an amount above zero. With twelve digits before the point, its minor units stay far below 64 bits. */
export function amountPattern(decimals: number): string {
  const whole = '[1-9][0-9]{0,11}'
  if (decimals === 0) return `^${whole}$`
  const fractions = Array.from({ length: decimals }, (_, zeros) => {
    const more = decimals - zeros - 1
    return `0{${zeros}}[1-9][0-9]{0,${more}}`
  })
  return `^(${whole}(\\.[0-9]{1,${decimals}})?|0\\.(${fractions.join('|')}))$`
}

/** The minor units of a text that matches {@link amountPattern}; `undefined` when it has more decimals. */
export function toMinor(amount: string, minorUnits: number): bigint | undefined {
  const [whole = '', fraction = ''] = amount.split('.')
  if (fraction.length > minorUnits) return undefined
  return BigInt(whole + fraction.padEnd(minorUnits, '0'))
}

/** The decimal text with all decimals of the currency: `-50n` EUR is `-0.50`. */
export function fromMinor(amountMinor: bigint, minorUnits: number): string {
  const sign = amountMinor < 0n ? '-' : ''
  const digits = (amountMinor < 0n ? -amountMinor : amountMinor).toString().padStart(minorUnits + 1, '0')
  if (minorUnits === 0) return sign + digits
  return `${sign}${digits.slice(0, -minorUnits)}.${digits.slice(-minorUnits)}`
}
