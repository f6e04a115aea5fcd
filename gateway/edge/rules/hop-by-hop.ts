import { withoutSpaceAround } from '../syntax/characters.ts'
import { Field } from '../syntax/field.ts'

/** Never removed, even when Connection names them: they frame and address the message. */
const NOT_NOMINABLE: ReadonlySet<string> = new Set(['host', 'content-length'])

/** True for a header, in lower case, that a Connection field removes. */
export function isNominated(name: string, nominated: ReadonlySet<string> | undefined): boolean {
  return nominated?.has(name) === true && !NOT_NOMINABLE.has(name)
}

/** The names, in lower case, that the Connection fields nominate; undefined when there are none. */
export function nominatedBy(fields: readonly Field[]): ReadonlySet<string> | undefined {
  let nominated: Set<string> | undefined
  for (const { lower, value } of fields) {
    if (lower !== 'connection' || value === 'keep-alive') continue
    for (const option of value.split(',')) {
      const nominee = withoutSpaceAround(option).toLowerCase()
      if (nominee === '' || nominee === 'close' || nominee === 'keep-alive') continue
      nominated ??= new Set()
      nominated.add(nominee)
    }
  }
  return nominated
}

/** The fields without those that Connection names, which are for this hop alone (RFC 9110 section 7.6.1). */
export function withoutNominated(fields: readonly Field[]): readonly Field[] {
  const nominated = nominatedBy(fields)
  return nominated === undefined ? fields : fields.filter(({ lower }) => !isNominated(lower, nominated))
}

const NUMBER = /^\d{1,15}$/

/** Tells whether an OPTIONS request is for the gateway itself, because it must not be forwarded any more (RFC 9110 section 7.6.2). */
export function endsHere(fields: readonly Field[]): boolean {
  return fields.some(
    ({ lower, value }) => lower === 'max-forwards' && NUMBER.test(value) && Number(value) === 0,
  )
}

/** The Max-Forwards of the next hop; what is no number stays as it is. */
export function oneHopLess(field: Field): Field {
  return NUMBER.test(field.value)
    ? new Field('Max-Forwards', String(Math.max(0, Number(field.value) - 1)))
    : field
}
