import { statSync } from 'node:fs'
import { join } from 'node:path'
import { stampsDirectory } from '../../audit/witness/stamps/stamp-files.ts'
import { WITNESSED_FILE, type Witnesses } from '../../audit/witness/witnessed-checkpoint.ts'
import { PolicyFault, parseTlogPolicy, type TlogPolicy } from '../../config/tlog-policy.ts'
import {
  AttestationFault,
  type KeptCheckpoint,
  openStamps,
  openWitnessed,
  readAuthorities,
  trustedWitnesses,
  witnessesOf,
} from '../../evidence/attested-checkpoints.ts'
import type { Finding } from '../../evidence/verify/finding.ts'
import { readRegularFile } from '../../storage/regular-file.ts'
import { type Flags, type Given, UsageFault } from '../command.ts'

export const ATTESTATION_FLAGS: Flags = {
  checkpoint: {
    value: 'FILE',
    about:
      'a checkpoint of this log that was kept elsewhere, to detect a roll-back. With --witness the witnesses must have signed it; the default is then checkpoint.witnessed in the log',
  },
  witness: { value: 'KEYS', about: 'verifier keys of the witnesses to trust, separated by commas' },
  quorum: { value: 'N', about: 'how many witnesses must have signed; default: all' },
  policy: {
    value: 'FILE',
    about:
      'C2SP tlog-policy: names the witnesses and their quorum (instead of --witness and --quorum) and, without --key, the logs to trust',
  },
  'stamp-authority': {
    value: 'FILE',
    about: 'PEM file of the time-stamping authority to trust; all time stamps in the log are verified',
  },
  stamps: { value: 'DIR', about: 'where the time stamps are; default: stamps in the log' },
}

/** @throws UsageFault; Error when the file is no policy */
export function policyOf(flags: Given['flags']): TlogPolicy | undefined {
  const file = flags.policy
  if (file === undefined) return undefined
  if (flags.witness !== undefined || flags.quorum !== undefined) {
    throw new UsageFault('--policy takes the place of --witness and --quorum')
  }
  try {
    return parseTlogPolicy(readRegularFile(file).toString())
  } catch (error) {
    if (!(error instanceof PolicyFault)) throw error
    throw new Error(`the policy ${file}: ${error.message}`)
  }
}

/** Witnesses of a policy or the flags; undefined: none is named. */
export function witnessesNamed(flags: Given['flags'], policy: TlogPolicy | undefined): Witnesses | undefined {
  if (policy !== undefined) return policy.quorum.least === 0 ? undefined : witnessesOf(policy)
  const keys = flags.witness
  if (keys === undefined) {
    if (flags.quorum !== undefined) throw new UsageFault('--quorum needs --witness')
    return undefined
  }
  const list = keys.split(',')
  return trustedWitnesses(list, Number(flags.quorum ?? list.length))
}

/** @param directory of the log @throws UsageFault; Error when a file cannot be read */
export function openKept(
  directory: string,
  flags: Given['flags'],
  witnesses: Witnesses | undefined,
): { readonly kept: readonly KeptCheckpoint[]; readonly findings: readonly Finding[] } {
  const findings: Finding[] = []
  const open = (look: () => readonly KeptCheckpoint[]): readonly KeptCheckpoint[] => {
    try {
      return look()
    } catch (error) {
      if (!(error instanceof AttestationFault)) throw error
      findings.push({ what: 'checkpoint', text: error.message })
      return []
    }
  }
  const authority = flags['stamp-authority']
  if (authority === undefined && flags.stamps !== undefined)
    throw new UsageFault('--stamps needs --stamp-authority')
  const stamped = authority === undefined ? [] : open(() => stampsOf(directory, flags, authority))
  return { kept: [...open(() => checkpointOf(directory, flags, witnesses)), ...stamped], findings }
}

function checkpointOf(
  directory: string,
  flags: Given['flags'],
  witnesses: Witnesses | undefined,
): readonly KeptCheckpoint[] {
  const given = flags.checkpoint
  if (witnesses === undefined) {
    return given === undefined ? [] : [{ file: given, bytes: readRegularFile(given), says: 'kept elsewhere' }]
  }
  const file = given ?? join(directory, WITNESSED_FILE)
  if (given === undefined && statSync(file, { throwIfNoEntry: false })?.isFile() !== true) {
    throw new AttestationFault(
      `${file} is missing: no checkpoint was ever signed by enough witnesses, or the file was removed`,
    )
  }
  return [openWitnessed(file, witnesses)]
}

function stampsOf(directory: string, flags: Given['flags'], authority: string): readonly KeptCheckpoint[] {
  const stamps = flags.stamps ?? stampsDirectory(directory)
  const found = openStamps(stamps, readAuthorities(authority))
  if (found.length > 0) return found
  throw new AttestationFault(`${stamps} has no time stamp: there was never one, or they were removed`)
}
