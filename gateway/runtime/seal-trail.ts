import { statSync } from 'node:fs'
import { join } from 'node:path'
import type { Metrics } from '../admin/metrics.ts'
import { judgePlace, ownerFault } from '../audit/file/trail-place.ts'
import { isRegularTrail } from '../audit/open-trail.ts'
import {
  makeMlDsaKey,
  makeSealKey,
  mlDsaKeyFile,
  type PrivateSealKeys,
  readKeyFiles,
  sealKeyOf,
} from '../audit/seals/seal-key.ts'
import { readOwnCheckpoint, refuseToReplaceKey } from '../audit/seals/sealed-log.ts'
import { Sealing } from '../audit/seals/sealing.ts'
import { logDirectory } from '../audit/seals/tiles.ts'
import type { Trail } from '../audit/trail.ts'
import type { Fault } from '../config/faults.ts'
import { checkPrivate, shownName } from '../config/load-file.ts'
import type { AuditSettings } from '../config/settings.ts'
import { inShell } from '../terminal/printable.ts'
import { RepeatedFault } from './repeated-fault.ts'
import type { StartupConfiguration } from './startup/read-configuration.ts'

interface SealedTrail {
  readonly directory: string
  readonly keys: PrivateSealKeys
  readonly origin: string
}

const KEY_FILE = 'audit-seal-key.pem'

/**
 * Reads the seal key, and the checkpoint that it must have signed; makes a key at the first start. Undefined: nothing is sealed.
 *
 * @throws Error that names the file, when the key cannot be used or the log is of another key
 */
export function prepareSeals({ settings, log }: StartupConfiguration): SealedTrail | undefined {
  const { file: trail, seals, sealKeyFile, secondSealKey, origin } = settings.audit
  if (seals === 'off' || !isRegularTrail(trail)) return undefined
  const file = sealKeyFile ?? join(settings.dataDir, KEY_FILE)
  const directory = logDirectory(trail)
  if (sealKeyFile === undefined) {
    if (isMissing(file)) refuseToReplaceKey(directory, file)
    if (makeSealKey(file)) {
      const flag = origin === undefined ? '' : ` --origin ${origin}`
      const command = `countersign audit key --show ${inShell(file)}${flag}`
      log.info({ file }, `a new key signs the seals: ${command} prints its verifier key; note it elsewhere`)
    }
  }
  const sealKey = sealKeyOf(readKeyFiles(file, false), origin)
  readOwnCheckpoint(directory, sealKey)
  const second = mlDsaKeyFile(file)
  const withSecond = secondSealKey !== undefined
  // Made only after the check that the log is not of another key.
  if (withSecond && sealKeyFile === undefined && makeMlDsaKey(file) !== undefined)
    log.info({ file: second }, 'a new ML-DSA-44 key signs the seals too')
  if (!withSecond && !isMissing(second))
    log.warn(
      { file: second },
      'the second key of the seals is not used: audit.secondSealKey does not ask for it',
    )
  for (const path of withSecond ? [file, second] : [file]) {
    const stats = statSync(path, { throwIfNoEntry: false })
    const fault = ownerFault(path, stats)
    if (fault !== undefined) throw new Error(`the key of the seals cannot be used: ${fault}`)
    try {
      // Whoever can read the key can seal another trail in place of this one.
      if (stats !== undefined) checkPrivate(stats)
    } catch (error) {
      log.warn({ file: path, cause: (error as Error).message }, 'other users may use the key of the seals')
    }
  }
  return { directory, keys: readKeys(file, settings.audit), origin: sealKey.origin }
}

function readKeys(file: string, { secondSealKey }: Pick<AuditSettings, 'secondSealKey'>): PrivateSealKeys {
  const first = readKeyFiles(file, false)
  if (secondSealKey === undefined) return first
  const second = mlDsaKeyFile(file)
  if (!isMissing(second)) return readKeyFiles(file, true)
  const command = `countersign audit key --second ${inShell(file)}`
  throw new Error(`${second} is missing, and audit.secondSealKey asks for it: ${command} makes it`)
}

function isMissing(file: string): boolean {
  return statSync(file, { throwIfNoEntry: false }) === undefined
}

/** Faults of the key that `audit.sealKeyFile` names. */
export function sealKeyFaults({
  file: trail,
  seals,
  sealKeyFile: file,
  secondSealKey,
}: Pick<AuditSettings, 'file' | 'seals' | 'sealKeyFile' | 'secondSealKey'>): Fault[] {
  if (seals === 'off' || !isRegularTrail(trail) || file === undefined) return []
  try {
    readKeys(file, { secondSealKey })
    return []
  } catch (error) {
    return [
      {
        file: shownName(file),
        path: '$',
        reason: `${(error as Error).message}; the file is named by "audit.sealKeyFile" (GATEWAY_AUDIT_SEAL_KEY)`,
      },
    ]
  }
}

/** Warns when the place of the trail lets other users change it. */
export function trailWarnings({ file }: Pick<AuditSettings, 'file'>): readonly string[] {
  return isRegularTrail(file) ? judgePlace(file).warnings : []
}

/** Reasons why a gateway of this user would refuse its trail or key. None for root, who may check for another user. */
export function ownerWarnings({
  file,
  sealKeyFile: key,
}: Pick<AuditSettings, 'file' | 'sealKeyFile'>): readonly string[] {
  if (!isRegularTrail(file) || process.geteuid?.() === 0) return []
  const ofKey = key && ownerFault(key, statSync(key, { throwIfNoEntry: false }))
  return [judgePlace(file).fault, ofKey].flatMap((fault) => fault || [])
}

/** @param sealed undefined: the trail is not sealed */
export function sealTrail(
  { log }: StartupConfiguration,
  sealed: SealedTrail | undefined,
  { trail, metrics }: { readonly trail: Trail; readonly metrics: Metrics },
): Sealing | undefined {
  if (sealed === undefined) return undefined
  const last = metrics.gateway_audit_last_seal_timestamp_seconds
  const faults = metrics.gateway_audit_seal_faults_total
  const gaps = metrics.gateway_audit_seal_gaps_total
  last.set(0)
  faults.begin()
  gaps.begin()
  const fault = new RepeatedFault()
  const sealing = new Sealing({
    ...sealed,
    trail,
    now: Date.now,
    onSealed: (size) => {
      last.set(Date.now() / 1000)
      if (fault.end()) log.info({ size }, 'the audit trail is sealed again')
    },
    onGap: ({ size, found }) => {
      gaps.count()
      log.error({ size, found }, 'sealed records are no longer in the audit trail')
    },
    onReadBack: (records) => {
      log.warn(
        { records },
        'unsealed records were read back from the audit files and sealed as they stand there',
      )
    },
    onFault: (cause) => {
      faults.count()
      metrics.causes.set('gateway_audit_seal_lag_seconds', cause)
      const due = fault.due(cause)
      if (due !== undefined) log.error(due, 'the audit trail cannot be sealed')
    },
  })
  metrics.gateway_audit_seal_lag_seconds.read(() => sealing.lagMs / 1000)
  metrics.gateway_audit_unsealed_records.read(() => sealing.unsealedRecords)
  metrics.gateway_audit_tree_size.read(() => sealing.sealedSize)
  trail.sealWith(sealing)
  return sealing
}
