import { Field } from '../../syntax/field.ts'

const NAME = 'max-forwards'
const NUMBER = /^\d{1,15}$/

/** Tells whether an OPTIONS request asks the gateway itself (RFC 9110 section 7.6.2): it may not be forwarded any more. */
export function endsHere(fields: readonly Field[]): boolean {
  return fields.some(({ lower, value }) => lower === NAME && NUMBER.test(value) && Number(value) === 0)
}

/** The Max-Forwards of the next hop; what is no number stays as it is. */
export function oneHopLess(field: Field): Field {
  return NUMBER.test(field.value)
    ? new Field('Max-Forwards', String(Math.max(0, Number(field.value) - 1)))
    : field
}
