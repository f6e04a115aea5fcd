import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import type { Refusal, RefusalCode } from '../../refusals.ts'
import { logOverlooked } from '../response/log-refusal.ts'

/** Codes that shadow mode overlooks. A body that cannot be read or kept is refused, because it cannot be forwarded. */
const OVERLOOKED: ReadonlySet<RefusalCode> = new Set<RefusalCode>([
  'token_in_query',
  'invalid_credentials',
  'missing_token',
  'missing_credentials',
  'invalid_token',
  'invalid_dpop_proof',
  'use_dpop_nonce',
  'invalid_certificate',
  'missing_signature',
  'invalid_signature',
  'digest_mismatch',
  'webhook_replayed',
  'too_many_failures',
  'webhooks_unavailable',
  'proofs_unavailable',
  'sessions_unavailable',
  'keys_unavailable',
  'introspection_unavailable',
  'revocation_unavailable',
])

/** Reports a refusal instead of refusing. A caller whose credential would be refused gets no principal. */
export function overlook(
  gateway: Gateway,
  exchange: Exchange,
  refused: Refusal | undefined,
): Refusal | undefined {
  if (refused === undefined) return undefined
  const isProved =
    refused.code === 'insufficient_scope' || refused.code === 'insufficient_user_authentication'
  if (!isProved && !OVERLOOKED.has(refused.code)) return refused
  if (!isProved) exchange.principal = undefined
  gateway.metrics.gateway_shadow_refusals_total.count(exchange.route?.path ?? '', refused.code)
  logOverlooked(gateway, exchange, refused)
  return undefined
}
