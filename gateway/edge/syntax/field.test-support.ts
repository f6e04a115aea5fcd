import { Field } from './field.ts'

/** Fields from a flat list of names and values. */
export function fieldsOf(flat: readonly string[]): Field[] {
  const fields: Field[] = []
  for (let i = 0; i + 1 < flat.length; i += 2)
    fields.push(new Field(flat[i] as string, flat[i + 1] as string))
  return fields
}
