import type { Field } from '../edge/syntax/field.ts'
import { type WrittenFields, writtenFields } from './http1/written-fields.ts'

/** Fields that several requests have in common, so that what is written of them is made once. Immutable. */
export class CommonFields {
  readonly fields: readonly Field[]
  #written: WrittenFields | undefined = undefined
  #isFlat = false

  constructor(fields: readonly Field[]) {
    this.fields = fields
  }

  /** For HTTP/1. @throws TypeError as `writtenFields` does */
  get written(): WrittenFields {
    if (this.#written === undefined) this.#written = writtenFields(this.fields)
    else if (!this.#isFlat) {
      this.#written = flat(this.#written)
      this.#isFlat = true
    }
    return this.#written
  }
}

/** V8 keeps a text that was added up as its parts, and would put them together anew for each further request. */
function flat(fields: WrittenFields): WrittenFields {
  return { ...fields, lines: Buffer.from(fields.lines, 'latin1').toString('latin1') }
}
