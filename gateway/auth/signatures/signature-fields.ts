import { combinedValue, type Field } from '../../edge/syntax/field.ts'
import { type FieldItem, parseDictionary, serializeParameters } from '../../edge/syntax/structured-field.ts'

/** One signature of a message (RFC 9421 section 4), not verified yet. */
export interface MessageSignature {
  readonly label: string
  readonly components: readonly FieldItem[]
  /** The names of its components, as `identifierOf` writes them. */
  readonly covered: ReadonlySet<string>
  /** `@signature-params`, canonical. */
  readonly params: string
  readonly value: Buffer
  /** Epoch seconds. */
  readonly created?: number
  /** Epoch seconds. */
  readonly expires?: number
  readonly nonce?: string
  readonly keyid?: string
  readonly alg?: string
  readonly tag?: string
}

/** Each signature may cost a verification. */
const MAX_SIGNATURES = 4
const MAX_COMPONENTS = 64
/** The record of a signature holds label and parameters, or the header of a JWS. */
export const MAX_LABEL_AND_PARAMS_CHARS = 4096
/** RFC 9421 section 2.3. */
const PARAMETERS: ReadonlyMap<string, string> = new Map([
  ['created', 'integer'],
  ['expires', 'integer'],
  ['nonce', 'string'],
  ['keyid', 'string'],
  ['alg', 'string'],
  ['tag', 'string'],
])

/** The name of a component with its parameters, sorted because their order has no meaning (RFC 9421 section 2). */
function identifierOf({ item, parameters }: FieldItem): string {
  if (parameters.size === 0) return item.text
  return item.text + serializeParameters([...parameters].sort(([one], [other]) => (one < other ? -1 : 1)))
}

/** Reads Signature-Input and Signature. A text says what is wrong with them. */
export function readSignatures(fields: readonly Field[]): readonly MessageSignature[] | string {
  const input = combinedValue(fields, 'signature-input')
  const signature = combinedValue(fields, 'signature')
  if (input === undefined && signature === undefined) return []
  const inputs = parseDictionary(input ?? '')
  const values = parseDictionary(signature ?? '')
  if (inputs === undefined || values === undefined)
    return `${inputs === undefined ? 'Signature-Input' : 'Signature'} must be a dictionary that names each signature once`
  if (values.size !== inputs.size) return 'Signature-Input and Signature do not name the same signatures'
  if (inputs.size > MAX_SIGNATURES) return `there are more than ${MAX_SIGNATURES} signatures`
  const signatures: MessageSignature[] = []
  for (const [label, { items, parameters, text: params }] of inputs) {
    const written = values.get(label)
    if (written?.item?.kind !== 'bytes' || written.parameters.size > 0)
      return `the signature ${label} is no byte sequence in Signature`
    if (items === undefined || items.length > MAX_COMPONENTS)
      return `the signature ${label} has no list of at most ${MAX_COMPONENTS} components`
    if (label.length + params.length > MAX_LABEL_AND_PARAMS_CHARS)
      return `a signature has more than ${MAX_LABEL_AND_PARAMS_CHARS} characters in Signature-Input`
    const covered = new Set(items.map(identifierOf))
    if (covered.size < items.length) return `the signature ${label} has a component twice`
    if (items.some(({ item }) => item.kind !== 'string')) return 'a component is no string'
    const known: Record<string, unknown> = {}
    for (const [name, { kind, value }] of parameters) {
      const wanted = PARAMETERS.get(name)
      if (wanted !== undefined && kind !== wanted) return `the parameter ${name} is no ${wanted}`
      if (wanted !== undefined) known[name] = value
    }
    signatures.push({ label, components: items, covered, params, value: written.item.value, ...known })
  }
  return signatures
}
