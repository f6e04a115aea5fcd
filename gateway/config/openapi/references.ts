import { percentDecoded } from '../../edge/syntax/characters.ts'
import { pointerSteps } from '../../edge/syntax/json-pointer.ts'

/** A value in a document, with its JSON pointer (RFC 6901). */
export interface Located {
  readonly value: unknown
  readonly pointer: string
}

const MAX_HOPS = 16

export function childPointer(pointer: string, step: string | number): string {
  return `${pointer}/${String(step).replaceAll('~', '~0').replaceAll('/', '~1')}`
}

export function at(document: unknown, pointer: string): unknown {
  let value = document
  for (const step of pointerSteps(pointer))
    value = Object.hasOwn(Object(value), step) ? (value as Record<string, unknown>)[step] : undefined
  return value
}

/** Follows `$ref` within the document; nothing is fetched. @returns the target, or a fault */
export function followed(document: unknown, { value, pointer }: Located): Located | string {
  let found: Located = { value, pointer }
  for (let hops = 0; hops < MAX_HOPS; hops++) {
    const reference = (found.value as { $ref?: unknown } | null | undefined)?.$ref
    if (reference === undefined) return found
    if (typeof reference !== 'string' || !reference.startsWith('#/')) {
      return `refers to ${JSON.stringify(reference)}, and only what is in this document is followed ("#/…")`
    }
    const target = percentDecoded(reference.slice(1))
    if (target === undefined || at(document, target) === undefined) {
      return `refers to ${JSON.stringify(reference)}, which is not in this document`
    }
    found = { value: at(document, target), pointer: target }
  }
  return `leads through ${MAX_HOPS} references or more, perhaps back to itself`
}
