import { DERIVED_COMPONENTS } from '../../config/clients/signature-profiles.ts'
import { percentDecoded } from '../../edge/syntax/characters.ts'
import { combinedValue, type Field } from '../../edge/syntax/field.ts'
import {
  type FieldItem,
  parseDictionary,
  serializeDictionary,
  serializeParameters,
} from '../../edge/syntax/structured-field.ts'
import type { OrFault } from '../tokens/verification.ts'
import type { MessageSignature } from './signature-fields.ts'

export interface SignedRequest {
  readonly method: string
  readonly target: string
  /** Absolute, as its client knows it: scheme and authority in lower case, then path and query as received. */
  readonly uri: string
  readonly fields: readonly Field[]
}

export interface SignedResponse {
  readonly status: number
  readonly fields: readonly Field[]
  readonly request: SignedRequest
}

class NoValue extends Error {}

/** Fields of known structure. Others cannot be serialised (RFC 9421 section 2.1.1). */
const DICTIONARIES: ReadonlySet<string> = new Set([
  'accept-signature',
  'content-digest',
  'priority',
  'repr-digest',
  'signature',
  'signature-input',
  'want-content-digest',
  'want-repr-digest',
])
const URI = /^([a-z]+):\/\/([^/?]*)([^?]*)(\?.*)?$/
export const ASCII = /^[\t\x20-\x7e]*$/

/** Makes the signature base (RFC 9421 section 2.5). Never throws. */
export function signatureBase(
  message: SignedRequest | SignedResponse,
  { components, params }: Pick<MessageSignature, 'components' | 'params'>,
): OrFault<{ readonly base: string }, string> {
  let base = ''
  for (const component of components) {
    try {
      const value = componentValue(message, component)
      if (!ASCII.test(value)) throw new NoValue('has a value beyond ASCII')
      base += `${component.text}: ${value}\n`
    } catch (error) {
      if (!(error instanceof NoValue)) throw error
      return { fault: `the component ${component.text} ${error.message}` }
    }
  }
  return { base: `${base}"@signature-params": ${params}` }
}

/** @throws NoValue */
function componentValue(
  message: SignedRequest | SignedResponse,
  { item, parameters }: Pick<FieldItem, 'item' | 'parameters'>,
): string {
  const name = String(item.value)
  if ('status' in message && parameters.get('req')?.value === true) {
    const others = new Map([...parameters].filter(([parameter]) => parameter !== 'req'))
    return componentValue(message.request, { item, parameters: others })
  }
  if (name.startsWith('@')) {
    if ('status' in message) {
      if (name !== '@status' || parameters.size > 0) throw new NoValue('is not valid in a response')
      return String(message.status)
    }
    const names = [...parameters.keys()].join()
    if (!DERIVED_COMPONENTS.has(name) || names !== (name === '@query-param' ? 'name' : ''))
      throw new NoValue('is not valid in a request')
    return derivedValue(message, name, parameters.get('name')?.value)
  }
  // Names of fields must be in lower case, so that no component can be there twice.
  if (name !== name.toLowerCase()) throw new NoValue('is not in lower case')
  const value = combinedValue(message.fields, name)
  if (value === undefined) throw new NoValue('is not in the message')
  return fieldValue(message, name, value, parameters)
}

/** Parsed fields and queries. A signature may name 64 members of a long field: to parse it 64 times takes a second. */
const READ = new WeakMap<object, Map<string, unknown>>()

function readOnce<T>(message: object, name: string, read: () => T): T {
  return READ.getOrInsertComputed(message, () => new Map()).getOrInsertComputed(name, read) as T
}

function fieldValue(
  message: Pick<SignedRequest, 'fields'>,
  name: string,
  combined: string,
  parameters: FieldItem['parameters'],
): string {
  if (parameters.size === 0) return combined
  const key = parameters.get('key')
  const flags = serializeParameters([...parameters].filter(([flag]) => flag !== 'key'))
  if (flags === ';bs' && key === undefined) return byteSequences(message.fields, name)
  if (flags !== '' && flags !== ';sf') throw new NoValue('has parameters that are not supported')
  if (key === undefined && !DICTIONARIES.has(name))
    throw new NoValue('has no structure that the gateway knows')
  const members = readOnce(message, name, () => parseDictionary(combined))
  if (members === undefined) throw new NoValue('is no dictionary')
  if (key === undefined) return serializeDictionary(members)
  const member = key.kind === 'string' ? members.get(key.value) : undefined
  if (member === undefined) throw new NoValue('is not in the message')
  return member.text
}

function derivedValue(message: SignedRequest, name: string, parameter: unknown): string {
  const { method, target, uri } = message
  if (name === '@method') return method
  if (name === '@target-uri') return uri
  const [, scheme = '', authority = '', path = '', query] = URI.exec(uri) ?? []
  if (name === '@query-param')
    return queryValue(
      readOnce(message, name, () => new URLSearchParams(query)),
      parameter,
    )
  const values: Readonly<Record<string, string>> = {
    '@authority': authority,
    '@scheme': scheme,
    '@request-target': target,
    '@path': path,
    '@query': query ?? '?',
  }
  return values[name] ?? ''
}

/** The value of a parameter, if it is there once (RFC 9421 section 2.2.8). @throws NoValue */
function queryValue(query: URLSearchParams, name: unknown): string {
  const decoded = percentDecoded(String(name)) ?? ''
  const [value, another] = percentEncoded(decoded) === name ? query.getAll(decoded) : []
  if (value === undefined) throw new NoValue('is not in the query')
  if (another !== undefined) throw new NoValue('is twice in the query')
  // U+FFFD stands for every octet that is not UTF-8.
  if (value.includes('\ufffd')) throw new NoValue('is not in UTF-8')
  return percentEncoded(value)
}

/** Encodes the percent-encode set of application/x-www-form-urlencoded (URL Standard section 1.3), a space as %20. */
function percentEncoded(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()~]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}

/** The lines of a field as the parameter `bs` shows them (RFC 9421 section 2.1.3). */
export function byteSequences(fields: readonly Field[], name: string): string {
  return fields
    .filter(({ lower }) => lower === name)
    .map(({ value }) => `:${Buffer.from(value, 'latin1').toString('base64')}:`)
    .join(', ')
}
