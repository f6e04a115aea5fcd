import type { HMAC_SCHEME } from '../keys/clients-keys.ts'
import type { Written } from '../keys/key-types.ts'
import { windowToMs } from '../rules/window-rule.ts'

/** How the characters of a secret become the key of the HMAC. `whsec`: base64 after `whsec_`. */
export type SecretForm = 'whsec' | 'text' | 'hex' | 'base64'

/** Plain data. */
export interface WebhookScheme {
  readonly name: 'standard' | 'svix' | 'stripe' | 'github' | 'described'
  /** Names of headers, in lower case. */
  readonly signatureHeader: string
  readonly idHeader: string | undefined
  /** Texts that a signed id must not hold, because they mark its ends; undefined: the id is not signed. */
  readonly idBorders: readonly string[] | undefined
  readonly timestampHeader: string | undefined
  /** The text between entries of the signature's header; undefined: it holds one signature. */
  readonly separator: ' ' | ',' | undefined
  /** The text in front of each signature. Entries without it are of another version and do not count. */
  readonly prefix: string
  /** The text in front of the time in the signature's header; undefined: that header holds no time. */
  readonly timestampPrefix: string | undefined
  readonly algorithm: 'sha256' | 'sha512' | 'sha1'
  readonly digestBytes: number
  readonly encoding: 'hex' | 'base64'
  /** Texts, and the parts `{id}`, `{timestamp}`, `{body}` and `{url}`. */
  readonly signed: readonly string[]
  /** How far the signed time may differ from our clock; undefined: no time is signed. */
  readonly toleranceSeconds: number | undefined
  /**
   * What a replay has in common with the first webhook: id and time (`attempt`), the signed text (`content`), or id or
   * signed text (`delivery`). A `delivery` is remembered after a 2xx of the service, the others when we accept them.
   */
  readonly replays: 'attempt' | 'content' | 'delivery'
  readonly secretForm: SecretForm
}

/** The tolerance of the named schemes. */
export const TOLERANCE_SECONDS = 300
const MAX_TOLERANCE_MS = 3_600_000
const DIGEST_BYTES = { sha1: 20, sha256: 32, sha512: 64 } as const
const PART = /(\{(?:id|timestamp|body|url)\})/

const SHA256 = { algorithm: 'sha256', digestBytes: DIGEST_BYTES.sha256 } as const
/** Standard Webhooks 1.0. */
const STANDARD: WebhookScheme = {
  ...SHA256,
  name: 'standard',
  signatureHeader: 'webhook-signature',
  idHeader: 'webhook-id',
  idBorders: ['.'],
  timestampHeader: 'webhook-timestamp',
  separator: ' ',
  prefix: 'v1,',
  timestampPrefix: undefined,
  encoding: 'base64',
  signed: ['{id}', '.', '{timestamp}', '.', '{body}'],
  toleranceSeconds: TOLERANCE_SECONDS,
  replays: 'attempt',
  secretForm: 'whsec',
}
const NAMED: Readonly<Record<Exclude<WebhookScheme['name'], 'described'>, WebhookScheme>> = {
  standard: STANDARD,
  // https://docs.svix.com/receiving/verifying-payloads/how-manual
  svix: {
    ...STANDARD,
    name: 'svix',
    signatureHeader: 'svix-signature',
    idHeader: 'svix-id',
    timestampHeader: 'svix-timestamp',
  },
  // https://docs.stripe.com/webhooks?verify=verify-manually
  stripe: {
    ...SHA256,
    name: 'stripe',
    signatureHeader: 'stripe-signature',
    idHeader: undefined,
    idBorders: undefined,
    timestampHeader: undefined,
    separator: ',',
    prefix: 'v1=',
    timestampPrefix: 't=',
    encoding: 'hex',
    signed: ['{timestamp}', '.', '{body}'],
    toleranceSeconds: TOLERANCE_SECONDS,
    replays: 'content',
    secretForm: 'text',
  },
  // https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
  github: {
    ...SHA256,
    name: 'github',
    signatureHeader: 'x-hub-signature-256',
    idHeader: 'x-github-delivery',
    idBorders: undefined,
    timestampHeader: undefined,
    separator: undefined,
    prefix: 'sha256=',
    timestampPrefix: undefined,
    encoding: 'hex',
    signed: ['{body}'],
    toleranceSeconds: undefined,
    replays: 'delivery',
    secretForm: 'text',
  },
}

type WrittenScheme = Written<typeof HMAC_SCHEME>
type Described = Exclude<WrittenScheme, string>

export function schemeOf(written: WrittenScheme = 'standard'): WebhookScheme {
  if (typeof written === 'string') return NAMED[written as keyof typeof NAMED]
  const { algorithm, timestampHeader } = written
  const signed = partsOf(written)
  return {
    name: 'described',
    signatureHeader: written.header.toLowerCase(),
    idHeader: written.idHeader?.toLowerCase(),
    idBorders: signed.includes('{id}') ? signed.filter((part) => !PART.test(part)) : undefined,
    timestampHeader: timestampHeader?.toLowerCase(),
    separator: undefined,
    prefix: written.prefix ?? '',
    timestampPrefix: undefined,
    algorithm,
    digestBytes: DIGEST_BYTES[algorithm],
    encoding: written.encoding,
    signed,
    toleranceSeconds:
      timestampHeader === undefined ? undefined : windowToMs(written.tolerance ?? '5m') / 1000,
    replays: 'delivery',
    secretForm: written.secretEncoding ?? 'text',
  }
}

/** The faulty key of a described scheme that the schema allows, and the reason. */
export function schemeFault(
  written: Described,
): { readonly key: string; readonly reason: string } | undefined {
  const parts = partsOf(written)
  const count = (part: string) => parts.filter((one) => one === part).length
  const signed = (reason: string) => ({ key: 'signed', reason })
  const unknown = parts.find((one) => !PART.test(one) && /[{}]/.test(one))
  if (unknown !== undefined) {
    return signed(`has ${JSON.stringify(unknown)}: the parts are {id}, {timestamp}, {body} and {url}`)
  }
  if (count('{body}') !== 1) return signed("must have {body}, once: what is not signed could be anybody's")
  for (const [part, key] of [
    ['{id}', 'idHeader'],
    ['{timestamp}', 'timestampHeader'],
  ] as const) {
    if (count(part) > 0 && written[key] === undefined) return signed(`has ${part}, which needs "${key}"`)
  }
  if (written.timestampHeader !== undefined && count('{timestamp}') === 0) {
    return { key: 'timestampHeader', reason: 'proves nothing, because "signed" has no {timestamp}' }
  }
  if (parts.some((part, at) => part === '{id}' && PART.test(parts[at + 1] ?? ''))) {
    return signed('must have a text after {id}, or nobody knows where the id ends')
  }
  if (parts.some((part, at) => part === '{id}' && /\{(?:body|url)\}/.test(parts[at - 1] ?? ''))) {
    return signed('must have a text before {id}, or nobody knows where the id begins')
  }
  if (written.tolerance === undefined) return undefined
  if (written.timestampHeader === undefined) return { key: 'tolerance', reason: 'needs "timestampHeader"' }
  return windowToMs(written.tolerance) > MAX_TOLERANCE_MS
    ? { key: 'tolerance', reason: 'must be at most "1h"' }
    : undefined
}

function partsOf({ signed }: Described): string[] {
  return signed.split(PART).filter((part) => part !== '')
}
