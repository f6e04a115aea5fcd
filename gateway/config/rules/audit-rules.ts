import type { AuditRetention, AuditRotation, Settings } from '../settings.ts'
import type { WrittenStamps, WrittenWitnesses } from '../witness-settings.ts'
import { windowToMs } from './window-rule.ts'

/** `audit` of config/gateway.json as the schema allows it. */
export interface WrittenAudit {
  readonly file: string
  readonly durability: Settings['auditDurability']
  readonly rotation?: Pick<AuditRotation, 'compress'> & {
    readonly maxBytes?: number
    readonly maxAge?: string
  }
  readonly retention?: Pick<AuditRetention, 'unsealed'> & { readonly keep: string }
  readonly witnesses?: WrittenWitnesses
  readonly stamps?: WrittenStamps
}

type AuditSettings = Pick<Settings, 'auditFile' | 'auditDurability' | 'auditRotation' | 'auditRetention'>

export function auditSettings({ file, durability, rotation, retention }: WrittenAudit): AuditSettings {
  return {
    auditFile: file,
    auditDurability: durability,
    auditRotation: rotation && {
      maxBytes: rotation.maxBytes,
      maxAgeMs: rotation.maxAge === undefined ? undefined : windowToMs(rotation.maxAge),
      compress: rotation.compress,
    },
    auditRetention: retention && {
      keepMs: windowToMs(retention.keep),
      unsealed: retention.unsealed,
    },
  }
}
