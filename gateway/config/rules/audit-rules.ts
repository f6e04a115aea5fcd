import type { Fault } from '../faults.ts'
import type { JsonFile } from '../json/json-file.ts'
import type { WrittenGateway } from '../keys/gateway-keys.ts'
import type { AuditBucket, Settings } from '../settings.ts'
import { urlFault } from './value-rules.ts'
import { windowToMs } from './window-rule.ts'

type WrittenAudit = WrittenGateway['audit']
type WrittenBucket = NonNullable<NonNullable<WrittenAudit['ship']>['s3']>

type AuditSettings = Pick<
  Settings,
  | 'auditFile'
  | 'auditDurability'
  | 'auditSeals'
  | 'auditSealKeyFile'
  | 'auditSecondSealKey'
  | 'auditOrigin'
  | 'auditRotation'
  | 'auditRetention'
  | 'auditShip'
>

/** Optional peers of the package, loaded for a bucket only. */
const BUCKET_PACKAGES = ['@aws-sdk/client-s3', '@aws-sdk/lib-storage']

/** What the schema cannot say. */
export function checkAudit(json: JsonFile<unknown>, { ship }: WrittenAudit): void {
  if (ship !== undefined && (ship.directory === undefined) === (ship.s3 === undefined)) {
    json.refuse({ path: '$.audit.ship', reason: 'must have one of "directory" and "s3"' })
  }
  json.check('$.audit.ship.s3.endpoint', ship?.s3?.endpoint, urlFault)
  if (ship?.s3 !== undefined && !BUCKET_PACKAGES.every(isInstalled)) {
    const reason = `needs packages that are not installed: run "npm install ${BUCKET_PACKAGES.join(' ')}"`
    json.refuse({ path: '$.audit.ship.s3', reason })
  }
}

function isInstalled(name: string): boolean {
  try {
    import.meta.resolve(name)
    return true
  } catch {
    return false
  }
}

/** What is asked of a trail that is no file, or has no seals. @param nameOf where the value of a setting comes from */
export function auditConflicts(
  configFile: string,
  settings: Kept & Pick<Settings, 'auditFile' | 'auditSeals'>,
  nameOf: (key: 'auditFile' | 'auditSeals') => string,
): Fault[] {
  const { auditRotation: rotation, auditRetention: retention, auditShip: ship } = settings
  const { auditWitnesses: witnesses, auditStamps: stamps, auditSecondSealKey: secondSealKey } = settings
  const refused = (keys: object, reason: string) =>
    Object.entries(keys).flatMap(([key, value]) =>
      value === undefined ? [] : [{ file: configFile, path: `$.audit.${key}`, reason }],
    )
  if (settings.auditFile === '-') {
    const reason = `is of no use on standard output: ${nameOf('auditFile')} must be a file`
    return refused({ rotation, retention, ship, witnesses, stamps, secondSealKey }, reason)
  }
  if (settings.auditSeals === 'on') return []
  const reason = `is of no use without seals: ${nameOf('auditSeals')} must be "on"`
  return refused({ witnesses, stamps, secondSealKey }, reason)
}

/** Each undefined where it is not configured. */
type Kept = {
  readonly [Key in
    | 'auditRotation'
    | 'auditRetention'
    | 'auditShip'
    | 'auditWitnesses'
    | 'auditStamps'
    | 'auditSecondSealKey']: unknown
}

export function auditSettings({ rotation, retention, ship, ...written }: WrittenAudit): AuditSettings {
  return {
    auditFile: written.file,
    auditDurability: written.durability,
    auditSeals: written.seals,
    auditSealKeyFile: written.sealKeyFile,
    auditSecondSealKey: written.secondSealKey,
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
