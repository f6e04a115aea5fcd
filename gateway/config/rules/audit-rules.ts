import type { JsonFile } from '../json/json-file.ts'
import type { AuditBucket, AuditRetention, AuditRotation, Settings } from '../settings.ts'
import type { WrittenStamps, WrittenWitnesses } from '../witness-settings.ts'
import { urlFault } from './value-rules.ts'
import { windowToMs } from './window-rule.ts'

/** `audit` of config/gateway.json as the schema allows it. */
export interface WrittenAudit {
  readonly file: string
  readonly durability: Settings['auditDurability']
  readonly seals: Settings['auditSeals']
  readonly sealKeyFile?: string
  readonly origin?: string
  readonly rotation?: Pick<AuditRotation, 'compress'> & {
    readonly maxBytes?: number
    readonly maxAge?: string
  }
  readonly retention?: Pick<AuditRetention, 'unsealed'> & { readonly keep: string }
  readonly ship?: { readonly directory?: string; readonly s3?: WrittenBucket }
  readonly witnesses?: WrittenWitnesses
  readonly stamps?: WrittenStamps
}

interface WrittenBucket extends Pick<AuditBucket, 'endpoint' | 'bucket' | 'region' | 'prefix'> {
  readonly credentialsFile?: string
  readonly objectLock?: { readonly mode: 'GOVERNANCE' | 'COMPLIANCE'; readonly retain: string }
}

type AuditSettings = Pick<
  Settings,
  | 'auditFile'
  | 'auditDurability'
  | 'auditSeals'
  | 'auditSealKeyFile'
  | 'auditOrigin'
  | 'auditRotation'
  | 'auditRetention'
  | 'auditShip'
>

/** What the schema cannot say. */
export function checkAudit(json: JsonFile<unknown>, { file, rotation, retention, ship }: WrittenAudit): void {
  if (ship !== undefined && (ship.directory === undefined) === (ship.s3 === undefined)) {
    json.refuse({ path: '$.audit.ship', reason: 'must have one of "directory" and "s3"' })
  }
  json.check('$.audit.ship.s3.endpoint', ship?.s3?.endpoint, urlFault)
  if (file !== '-') return
  for (const [key, value] of Object.entries({ rotation, retention, ship })) {
    const reason = 'is of no use on standard output: audit.file must be a file'
    if (value !== undefined) json.refuse({ path: `$.audit.${key}`, reason })
  }
}

export function auditSettings({ rotation, retention, ship, ...written }: WrittenAudit): AuditSettings {
  return {
    auditFile: written.file,
    auditDurability: written.durability,
    auditSeals: written.seals,
    auditSealKeyFile: written.sealKeyFile,
    auditOrigin: written.origin,
    auditRotation: rotation && {
      maxBytes: rotation.maxBytes,
      maxAgeMs: rotation.maxAge === undefined ? undefined : windowToMs(rotation.maxAge),
      compress: rotation.compress,
    },
    auditRetention: retention && {
      keepMs: windowToMs(retention.keep),
      unsealed: retention.unsealed,
    },
    auditShip: ship && { directory: ship.directory, s3: ship.s3 && bucketOf(ship.s3) },
  }
}

function bucketOf({ credentialsFile, objectLock, ...written }: WrittenBucket): AuditBucket {
  return {
    ...written,
    credentialsFile,
    objectLock: objectLock && { mode: objectLock.mode, retainMs: windowToMs(objectLock.retain) },
  }
}
