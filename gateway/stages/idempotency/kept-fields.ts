import { nominatedBy } from '../../edge/rules/hop-by-hop.ts'
import { RESPONSE_PARTS } from '../../edge/rules/response-headers.ts'
import { Field } from '../../edge/syntax/field.ts'

/** Fields that are for the first request alone. */
const OF_ONE_REQUEST = /^(?:set-cookie2?|dpop-nonce|x-rate-?limit.*|x-(?:correlation|trace)-id)$/

/** The end-to-end fields that a replay has too: each `name: value` with its CR LF, latin1. */
export function keptFields(fields: readonly Field[]): string {
  const nominated = nominatedBy(fields)
  let kept = ''
  for (const { name, lower, value } of fields)
    if (!RESPONSE_PARTS.has(lower) && nominated?.has(lower) !== true && !OF_ONE_REQUEST.test(lower))
      kept += `${name}: ${value}\r\n`
  return kept
}

/** @param kept made by `keptFields` */
export function fieldsIn(kept: string): Field[] {
  const lines = kept.split('\r\n').slice(0, -1)
  return lines.map((line) => new Field(line.slice(0, line.indexOf(': ')), line.slice(line.indexOf(': ') + 2)))
}
