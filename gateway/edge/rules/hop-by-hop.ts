import { withoutSpaceAround } from '../syntax/characters.ts'
import { Field } from '../syntax/field.ts'

/** Never removed, even when Connection names them: they frame and address the message. */
const NOT_NOMINABLE: ReadonlySet<string> = new Set(['host', 'content-length'])

/** @param name in lower case */
export function isNominated(name: string, nominated: ReadonlySet<string> | undefined): boolean {
  return nominated?.has(name) === true && !NOT_NOMINABLE.has(name)
}

/** Names, in lower case, in Connection fields; undefined when there are none. */
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

/** Removes the fields that Connection names (RFC 9110 section 7.6.1). */
export function withoutNominated(fields: readonly Field[]): readonly Field[] {
  const nominated = nominatedBy(fields)
  return nominated === undefined ? fields : fields.filter(({ lower }) => !isNominated(lower, nominated))
}

const NUMBER = /^\d{1,15}$/

/** True for an OPTIONS request that must not be forwarded any more (RFC 9110 section 7.6.2). */
export function endsHere(fields: readonly Field[]): boolean {
  return fields.some(
    ({ lower, value }) => lower === 'max-forwards' && NUMBER.test(value) && Number(value) === 0,
  )
}

/** Counts Max-Forwards down. A value that is no number stays as it is. */
export function oneHopLess(field: Field): Field {
  return NUMBER.test(field.value)
    ? new Field('Max-Forwards', String(Math.max(0, Number(field.value) - 1)))
    : field
}
