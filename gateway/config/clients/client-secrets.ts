import { createSecretKey, type KeyObject } from 'node:crypto'
import { LINE_END, type ReadFile, readLenient, whyUnreadable } from '../load-file.ts'
import type { SecretForm } from './webhook-schemes.ts'

type SecretPlace = { readonly env: string } | { readonly file: string }

export interface SecretSources {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly readFile: ReadFile
}

type SecretReading =
  | { readonly secret: KeyObject; readonly reason?: never }
  | { readonly reason: string; readonly secret?: never }

export const THIS_MACHINE: SecretSources = { env: process.env, readFile: readLenient }

const PREFIX = 'whsec_'
/** Standard Webhooks 1.0, "Signature scheme". */
const MIN_BYTES = 24
const MAX_BYTES = 64
/** The chance that 24 random bytes have fewer than 8 different values is below 10^-20. */
const MIN_DIFFERENT_BYTES = 8
/** A secret of senders that do not use `whsec_`. */
const VISIBLE = /^[\x21-\x7e]{16,256}$/

/** A file may end with a line end. @returns the key, or what is wrong, without the secret */
export function readSecret(place: SecretPlace, form: SecretForm, sources: SecretSources): SecretReading {
  const name =
    'env' in place ? `the environment variable ${place.env}` : `the file ${JSON.stringify(place.file)}`
  try {
    const text = 'env' in place ? sources.env[place.env] : sources.readFile(place.file).replace(LINE_END, '')
    if (text === undefined) return { reason: `${name} is not set` }
    if (text === '') return { reason: `${name} is empty` }
    return form === 'whsec' ? parseWhsec(text, name) : parseVisible(text, form, name)
  } catch (error) {
    return { reason: `${name} cannot be read: ${whyUnreadable(error)}` }
  }
}

function parseWhsec(text: string, name: string): SecretReading {
  const must = `${name} must hold a secret: "${PREFIX}" and the base64 of ${MIN_BYTES} to ${MAX_BYTES} random bytes`
  if (!text.startsWith(PREFIX)) return { reason: `${must}, but does not begin with "${PREFIX}"` }
  const encoded = text.slice(PREFIX.length)
  const bytes = Buffer.from(encoded, 'base64')
  // Node's decoder skips invalid characters.
  if (bytes.toString('base64') !== encoded) return { reason: `${must}, but what follows is not base64` }
  if (bytes.length < MIN_BYTES || bytes.length > MAX_BYTES) {
    return { reason: `${must}, but holds ${bytes.length}` }
  }
  if (new Set(bytes).size < MIN_DIFFERENT_BYTES) return { reason: `${must}, but its bytes are not random` }
  return { secret: createSecretKey(bytes) }
}

function parseVisible(text: string, form: Exclude<SecretForm, 'whsec'>, name: string): SecretReading {
  if (!VISIBLE.test(text)) {
    return { reason: `${name} must hold a secret: 16 to 256 visible ASCII characters without a space` }
  }
  const bytes = Buffer.from(text, form === 'text' ? 'latin1' : form)
  const again = form === 'hex' ? text.toLowerCase() : text
  if (form !== 'text' && bytes.toString(form) !== again) {
    return { reason: `${name} must hold a secret in ${form}, as "secretEncoding" says` }
  }
  return { secret: createSecretKey(bytes) }
}
