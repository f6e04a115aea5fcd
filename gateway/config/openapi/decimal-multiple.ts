import { takeSteps } from './check-steps.ts'

/** `digits` times ten to the power of `exponent`. */
interface Decimal {
  readonly digits: bigint
  readonly exponent: number
}

/**
 * Whether a number is a multiple of another as both are written in decimal: 19.99 is one of 0.01, though neither has an exact
 * binary fraction. Exact for numbers of up to 15 digits.
 *
 * @throws TooComplex
 */
export function isMultiple(value: number, divisor: number): boolean {
  if (Number.isSafeInteger(value) && Number.isSafeInteger(divisor)) return value % divisor === 0
  if (!Number.isFinite(value) || !Number.isFinite(divisor) || divisor === 0) return false
  const [one, other] = [decimalOf(value), decimalOf(divisor)]
  const exponent = Math.min(one.exponent, other.exponent)
  takeSteps(50 + one.exponent + other.exponent - 2 * exponent)
  return scaled(one, exponent) % scaled(other, exponent) === 0n
}

/** The shortest decimal that stands for this number. */
function decimalOf(value: number): Decimal {
  const [whole = '', fraction = '', power = '0'] =
    /^(-?\d+)(?:\.(\d+))?(?:e(.+))?$/.exec(String(value))?.slice(1) ?? []
  return { digits: BigInt(whole + fraction), exponent: Number(power) - fraction.length }
}

function scaled({ digits, exponent }: Decimal, to: number): bigint {
  return digits * 10n ** BigInt(exponent - to)
}
