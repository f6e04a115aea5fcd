import type { Field } from '../../syntax/field.ts'
import { canonicalPath } from '../canonical-path.ts'
import { type ParameterPlace, segmentsOf, textOf } from '../path-template.ts'
import { withoutParameters } from './path-readings.ts'

/** Another path for the service. Plain data. */
export type Rewrite =
  | {
      readonly prefix: string
      /** How many characters of the matched path `prefix` replaces. */
      readonly replaced: number
    }
  | { readonly parts: readonly (string | ParameterPlace)[] }

/** Changes to a row's requests, besides those made everywhere. Plain data. */
export interface SendingPolicy {
  /** Undefined: the path that was matched. */
  readonly rewrite: Rewrite | undefined
  /** True when the service gets the target as the client wrote it. */
  readonly isRaw: boolean
  /** Undefined: the client's Host, unless `namesTarget`. */
  readonly host: string | undefined
  /** True when Host names the upstream. */
  readonly namesTarget: boolean
  /** Names, in lower case, of fields that are sent although they would be removed otherwise. */
  readonly allowed: ReadonlySet<string>
  /** Names, folded as services fold them, of received fields that are not sent. */
  readonly removed: ReadonlySet<string>
  readonly added: readonly Field[]
}

/** The paths that a rewrite leads to, written like a row's path. */
export function patternOf(rewrite: Rewrite): string {
  if ('prefix' in rewrite) return `${rewrite.prefix}/*`
  return rewrite.parts.map((part) => (typeof part === 'string' ? part : `{${part.name}}`)).join('')
}

/** @param path canonical, covered by the row */
export function rewrittenPath(rewrite: Rewrite, path: string): string {
  if ('prefix' in rewrite) return rewrite.prefix + path.slice(rewrite.replaced)
  const segments = segmentsOf(path)
  return rewrite.parts.map((part) => (typeof part === 'string' ? part : textOf(part, segments))).join('')
}

/**
 * True when the rewritten path leads where the rewrite says, also in services that drop what follows `;`. A
 * parameter within a segment may be a dot or half an octet, which could change another segment.
 */
export function isRewritable(rewrite: Rewrite | undefined, path: string): boolean {
  if (rewrite === undefined) return true
  const rewritten = rewrittenPath(rewrite, path)
  if ('prefix' in rewrite) return !NAMES_HOST.test(rewritten)
  const plain = path.includes(';') ? rewrittenPath(rewrite, withoutParameters(path)) : rewritten
  return (
    canonicalPath(rewritten) === rewritten &&
    canonicalPath(plain) === plain &&
    withoutParameters(rewritten) === plain
  )
}

/** A path that names a host in URLs: it begins with two slashes. The second may be encoded, or behind parameters. */
const NAMES_HOST = /^\/(?:;[^/]*?)?(?:\/|%2F)/

/** Names, in lower case, of request fields that no row may allow, set or remove, besides hop-by-hop fields. */
export const OWN_REQUEST_FIELDS: ReadonlySet<string> = new Set([
  'cdn-loop',
  'client-cert',
  'client-cert-chain',
  'content-length',
  'expect',
  'forwarded',
  'host',
  'proxy',
  'traceparent',
  'tracestate',
  'via',
  'x-auth-client',
  'x-auth-method',
  'x-auth-scope',
  'x-auth-session',
  'x-auth-subject',
  'x-fapi-interaction-id',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-real-ip',
  'x-request-id',
  'x-revoke-session',
])
