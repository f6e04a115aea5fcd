import assert from 'node:assert/strict'
import { constants, createHash, type KeyObject, sign } from 'node:crypto'
import type { ClientSigner } from '../../config/clients/clients-file.ts'
import type { SignatureProfile } from '../../config/clients/signature-profiles.ts'
import { Field } from '../../edge/syntax/field.ts'
import type { Algorithm } from '../keys/signature.ts'
import { NOW_MS } from '../tokens/issuer.test-support.ts'
import { ClientKeys } from './client-keys.ts'
import { verifyMessage } from './presented-signatures.ts'
import { SIGNATURE_FORMS } from './signature-forms.ts'

export interface SignedBy {
  readonly key: KeyObject
  readonly algorithm: Algorithm
  /** The parameters in `@signature-params`, as written, each with its semicolon. */
  readonly params: string
  readonly label?: string
}

export const digestOf = (body: string | Buffer) =>
  `sha-256=:${createHash('sha256').update(body).digest('base64')}:`

/**
 * Signs a message without the code that verifies it.
 *
 * @param components names, as written in Signature-Input, with their values
 */
export function signMessage(
  components: readonly (readonly [component: string, value: string])[],
  { key, algorithm, params, label = 'sig' }: SignedBy,
): { readonly 'Signature-Input': string; readonly Signature: string } {
  const list = `(${components.map(([component]) => component).join(' ')})${params}`
  const lines = components.map(([component, value]) => `${component}: ${value}\n`).join('')
  const signature = signBytes(`${lines}"@signature-params": ${list}`, key, algorithm)
  return {
    'Signature-Input': `${label}=${list}`,
    Signature: `${label}=:${signature.toString('base64')}:`,
  }
}

export function signBytes(text: string, key: KeyObject, algorithm: Algorithm): Buffer {
  const bytes = Buffer.from(text, 'latin1')
  const pss = { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: constants.RSA_PSS_SALTLEN_DIGEST }
  switch (algorithm) {
    case 'EdDSA':
      return sign(null, bytes, key)
    case 'ES256':
      return sign('sha256', bytes, { key, dsaEncoding: 'ieee-p1363' })
    case 'RS256':
      return sign('sha256', bytes, key)
    case 'PS256':
      return sign('sha256', bytes, { key, ...pss })
    default:
      return sign('sha512', bytes, { key, ...pss })
  }
}

export interface TestClient {
  readonly id: string
  readonly jwks: readonly object[]
  readonly profile: SignatureProfile
}

export interface Message {
  method: string
  target: string
  authority: string
  body: string
  fields: [name: string, value: string][]
}

interface Judgement {
  /** Set when the request is accepted. */
  readonly client?: string | undefined
  readonly unique?: string | undefined
  readonly fault?: string | undefined
}

/** The keys of the last request, because thousands of requests of the same clients follow each other. */
let last: { readonly clients: readonly TestClient[]; readonly nowMs: number; readonly keys: ClientKeys }

function keysOf(clients: readonly TestClient[], nowMs: number): ClientKeys {
  const isSame = clients.length === last?.clients.length && clients.every((one, i) => one === last.clients[i])
  if (isSame && nowMs === last.nowMs) return last.keys
  const keys = new ClientKeys({ clock: () => nowMs, onFault: assert.fail })
  keys.replace(
    new Map(
      clients.map(({ id, jwks, profile }) => {
        const principal = { client: id } as ClientSigner['principal']
        return [id, { principal, profile, keys: { uri: id, document: { keys: jwks } } }]
      }),
    ),
  )
  last = { clients: [...clients], nowMs, keys }
  return keys
}

/** Judges a client's request as the stage does on a row with `idempotency`. @param bodyMs when its body has come */
export function judge(
  { method, target, authority, body, fields }: Message,
  clients: readonly TestClient[],
  nowMs = NOW_MS,
  bodyMs = nowMs,
): Judgement {
  const form = SIGNATURE_FORMS[clients[0]?.profile.form ?? 'rfc-9421']
  const request = { method, target, fields: fields.map(([name, value]) => new Field(name, value)) }
  const signatures = form.parse({
    ...request,
    keyHeader: 'idempotency-key',
    requests: [{ ...request, uri: `https://${authority}${target}` }],
  })
  if (typeof signatures === 'string') return { fault: signatures }
  if (signatures.length === 0) return { fault: 'missing' }
  const keys = keysOf(clients, nowMs)
  const ownersOf = (kid: string) => keys.ownersOf(kid)
  const { verified, fault } = verifyMessage({ signatures, ownersOf, known: undefined, nowMs })
  if (verified === undefined) return { fault: `${fault.reason}: ${fault.cause}` }
  const faults = verified.map(({ head }) => head.faultOf(Buffer.from(body), bodyMs))
  const good = verified[faults.indexOf(undefined)]
  if (good === undefined) return { fault: `${faults[0]?.reason}: ${faults[0]?.cause}` }
  return { client: good.signer.principal.client, unique: good.head.unique }
}

/** Replaces one character by another one that is visible. */
export function replaced(text: string, at: number, other: number): string {
  const place = at % text.length
  const next = 0x21 + ((text.charCodeAt(place) - 0x20 + (other % 93)) % 94)
  return text.slice(0, place) + String.fromCharCode(next) + text.slice(place + 1)
}
