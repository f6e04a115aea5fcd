import type { Misfit } from '../../config/openapi/schema-fits.ts'
import type { JsonMember } from '../../config/settings.ts'
import { checkedText, memberIn, twinIn } from '../../edge/bodies/exact-json.ts'
import { withoutNominated } from '../../edge/rules/hop-by-hop.ts'
import { type Field, valueIn } from '../../edge/syntax/field.ts'
import { APPLICATION_JSON, bareMediaType } from '../../edge/syntax/media-type.ts'
import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import { andThen, type Outcome, type Refusal, refusal } from '../../refusals.ts'
import { wholeBody } from './whole-body.ts'

const ENCODED = refusal('unsupported_media_type', { detail: 'The request body must not be encoded.' })
const CHARSET = refusal('unsupported_media_type', { detail: 'The request body must be in UTF-8.' })
const MAX_CHARS = 16_384
const NOT_JSON = refusal('unsupported_media_type', { detail: 'The request body must be JSON.' })

/**
 * Reads members of a JSON body. Refuses a body that a service may understand differently.
 * @param decide gets the JSON text of each member, in the order of `members`; undefined for a missing one
 */
export function readMembers(
  gateway: Gateway,
  exchange: Exchange,
  members: readonly JsonMember[],
  decide: (values: readonly (string | undefined)[]) => Outcome,
): Outcome {
  return andThen(wholeBody(gateway, exchange), (body) => {
    if (!Buffer.isBuffer(body)) return body
    if (exchange.closed) return undefined
    const values = valuesOf(exchange, members, body)
    return 'code' in values ? values : decide(values)
  })
}

function valuesOf(
  { req }: Exchange,
  members: readonly JsonMember[],
  body: Buffer,
): readonly (string | undefined)[] | Refusal {
  if (body.length === 0) return members.map(() => undefined)
  const fields = withoutNominated(req.fields)
  const contentType = valueIn(fields, 'content-type') ?? ''
  if (!APPLICATION_JSON.test(bareMediaType(contentType))) return NOT_JSON
  const unread = refuseEncoding(contentType, fields)
  if (unread !== undefined) return unread
  const json = checkedText(body)
  if ('fault' in json) return refuseMisfit('request body', { pointer: '', reason: json.fault })
  const values: (string | undefined)[] = []
  for (const { pointer, steps } of members) {
    const { source, odd } = memberIn(json.text, steps)
    if (source !== undefined && source.length > MAX_CHARS)
      return refuseMisfit('request body', {
        pointer,
        reason: `must not be longer than ${MAX_CHARS} characters`,
      })
    const twin = odd ?? twinIn(source && JSON.parse(source))
    if (twin !== undefined)
      return refuseMisfit('request body', {
        pointer,
        reason: `services may take ${JSON.stringify(twin)} for another member`,
      })
    values.push(source)
  }
  return values
}

/** Refuses JSON that a service might read in another encoding than UTF-8. @param fields as the service gets them */
export function refuseEncoding(contentType: string, fields: readonly Field[]): Refusal | undefined {
  if (!isInUtf8(contentType)) return CHARSET
  // Checks each such field, because a service may read another than the first.
  return fields.some(({ lower, value }) => lower === 'content-encoding' && value.toLowerCase() !== 'identity')
    ? ENCODED
    : undefined
}

/** True when no charset but UTF-8 is named. A service that decodes another charset may see several members in one. */
function isInUtf8(contentType: string): boolean {
  const charsets = contentType.toLowerCase().split('charset').slice(1)
  return charsets.every((rest) => /^=(?:utf-?8|"utf-?8")\s*(?:;|$)/.test(rest))
}

/** Refuses with a sentence such as `The request body at "/amount": must be string.` */
export function refuseMisfit(what: string, { pointer, reason }: Misfit): Refusal {
  const place = pointer === '' ? '' : `at ${JSON.stringify(pointer)}: `
  return refusal('schema_violation', { detail: `The ${what} ${place}${reason}.` })
}
