import type { Fault } from '../faults.ts'
import type { JsonFile } from '../json/json-file.ts'
import type { WrittenGateway } from '../keys/gateway-keys.ts'
import type { AuditBucket, AuditSettings } from '../settings.ts'
import type { VouchingSettings } from '../witness-settings.ts'
import { urlFault } from './value-rules.ts'
import { windowToMs } from './window-rule.ts'

type WrittenAudit = WrittenGateway['audit']
type WrittenBucket = NonNullable<NonNullable<WrittenAudit['ship']>['s3']>

/** Before the files of those who vouch are read. */
export type WrittenVouching = Omit<AuditSettings, keyof VouchingSettings> &
  Pick<WrittenAudit, keyof VouchingSettings>

/** The settings of the audit trail; witnesses and stamps are judged elsewhere. */
export type JudgedAudit = Omit<AuditSettings, keyof VouchingSettings> &
  Partial<Record<keyof VouchingSettings, unknown>>

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
  { file, seals, rotation, retention, ship, witnesses, stamps, secondSealKey }: JudgedAudit,
  nameOf: (key: 'audit.file' | 'audit.seals') => string,
): Fault[] {
  const refused = (keys: object, reason: string) =>
    Object.entries(keys).flatMap(([key, value]) =>
      value === undefined ? [] : [{ file: configFile, path: `$.audit.${key}`, reason }],
    )
  if (file === '-') {
    const reason = `is of no use on standard output: ${nameOf('audit.file')} must be a file`
    return refused({ rotation, retention, ship, witnesses, stamps, secondSealKey }, reason)
  }
  if (seals === 'on') return []
  const reason = `is of no use without seals: ${nameOf('audit.seals')} must be "on"`
  return refused({ witnesses, stamps, secondSealKey }, reason)
}

export function auditSettings({ rotation, retention, ship, ...written }: WrittenAudit): WrittenVouching {
  return {
    ...written,
    rotation: rotation && {
      maxBytes: rotation.maxBytes,
      maxAgeMs: rotation.maxAge === undefined ? undefined : windowToMs(rotation.maxAge),
      compress: rotation.compress,
    },
    retention: retention && { keepMs: windowToMs(retention.keep), unsealed: retention.unsealed },
    ship: ship && { directory: ship.directory, s3: ship.s3 && bucketOf(ship.s3) },
  }
}

function bucketOf({ credentialsFile, objectLock, ...written }: WrittenBucket): AuditBucket {
  return {
    ...written,
    credentialsFile,
    objectLock: objectLock && { mode: objectLock.mode, retainMs: windowToMs(objectLock.retain) },
  }
}
