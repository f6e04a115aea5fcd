import { randomUUID } from 'node:crypto'
import { combinedValue, Field } from '../../edge/syntax/field.ts'
import { type Component, digestOf, type MessageSigner } from './message-signer.ts'
import { ASCII, byteSequences } from './signature-base.ts'

interface UnsignedRequest {
  readonly method: string
  /** URI as the service sees it. */
  readonly uri: string
  readonly fields: readonly Field[]
  readonly body: Buffer | undefined
  readonly nowMs: number
}

/** Fields that say who calls: the client's credential, and what the gateway made of it. */
const COVERED = [
  'authorization',
  'client-cert',
  'x-auth-client',
  'x-auth-method',
  'x-auth-scope',
  'x-auth-session',
  'x-auth-subject',
]
const LABEL = 'gateway'

/** @returns fields to add to those of the client */
export function signRequest(
  signer: MessageSigner,
  { method, uri, fields, body, nowMs }: UnsignedRequest,
): readonly Field[] {
  const added: Field[] = []
  const components: Component[] = [
    ['"@method"', method],
    ['"@target-uri"', uri],
  ]
  for (const name of COVERED) {
    const value = combinedValue(fields, name)
    if (value === undefined) continue
    if (ASCII.test(value)) components.push([`"${name}"`, value])
    else components.push([`"${name}";bs`, byteSequences(fields, name)])
  }
  if (body !== undefined) {
    // The client's digest, if any, has been compared with the body.
    const sent = combinedValue(fields, 'content-digest')
    const digest = sent ?? digestOf(body)
    if (sent === undefined) added.push(new Field('Content-Digest', digest))
    components.push(['"content-digest"', digest])
  }
  const label = freeLabel(fields)
  const { input, value } = signer.sign(components, 'gateway-request', nowMs)
  added.push(new Field('Signature-Input', `${label}=${input}`), new Field('Signature', `${label}=:${value}:`))
  return added
}

/** A label that no signature of the client has. Nobody can foresee a UUID. */
function freeLabel(fields: readonly Field[]): string {
  const taken = combinedValue(fields, 'signature-input') ?? ''
  return taken.includes(LABEL) ? `${LABEL}-${randomUUID()}` : LABEL
}
