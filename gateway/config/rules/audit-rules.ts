import type { Fault } from '../faults.ts'
import type { JsonFile } from '../json/json-file.ts'
import type { WrittenAudit } from '../keys/gateway-keys.ts'
import type { AuditSettings } from '../settings.ts'
import { urlFault } from './value-rules.ts'

/** Optional peer dependencies of the package, loaded only for a bucket. */
const BUCKET_PACKAGES = ['@aws-sdk/client-s3', '@aws-sdk/lib-storage']

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

/** Faults of keys that need a file or seals. @param nameOf names the place where the value of a setting comes from */
export function auditConflicts(
  configFile: string,
  { file, seals, rotation, retention, ship, witnesses, stamps, secondSealKey }: WrittenAudit | AuditSettings,
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
