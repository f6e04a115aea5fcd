import type { AuditRotation, Durability } from '../settings.ts'
import type { WrittenStamps, WrittenWitnesses } from '../witness-settings.ts'
import { windowToMs } from './window-rule.ts'

/** `audit` of config/gateway.json as the schema allows it. */
export interface WrittenAudit {
  readonly file: string
  readonly durability: Durability
  readonly rotation?: { readonly maxBytes?: number; readonly maxAge?: string }
  readonly witnesses?: WrittenWitnesses
  readonly stamps?: WrittenStamps
}

export function auditRotation({ rotation }: WrittenAudit): AuditRotation | undefined {
  if (rotation === undefined) return undefined
  const { maxBytes, maxAge } = rotation
  return { maxBytes, maxAgeMs: maxAge === undefined ? undefined : windowToMs(maxAge) }
}
