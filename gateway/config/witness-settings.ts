import { X509Certificate } from 'node:crypto'
import { describeFault, type Fault, type Parsed } from './faults.ts'
import type { WrittenGateway } from './keys/gateway-keys.ts'
import { loadFile, type ReadFile } from './load-file.ts'
import { urlFault } from './rules/value-rules.ts'
import { windowToMs } from './rules/window-rule.ts'
import {
  keyMaterial,
  PolicyFault,
  parseTlogPolicy,
  type Quorum,
  type TlogPolicy,
  witnessKeyFault,
} from './tlog-policy.ts'

/** Who cosigns checkpoints of the log, as plain data. Immutable. */
export interface WitnessesSettings {
  /** Who of them must have cosigned a checkpoint. */
  readonly quorum: Quorum
  /** Between two checkpoints that they are asked to cosign, at least. */
  readonly everyMs: number
  readonly members: readonly {
    /** Where `add-checkpoint` stands, without a closing slash. */
    readonly url: string
    /** `<name>+<key id>+<base64>`. */
    readonly key: string
    /** PEM: the authorities of its certificate; undefined: those that Node knows. */
    readonly ca: string | undefined
  }[]
}

/** Who time-stamps checkpoints of the log, as plain data. Immutable. */
export interface StampsSettings {
  readonly url: string
  /** Between two stamps, at least. */
  readonly everyMs: number
  /** PEM: whose stamps are accepted. */
  readonly authorities: readonly string[]
  /** PEM, as of a witness. */
  readonly ca: string | undefined
  /** Object identifier; undefined: the authority's own. */
  readonly policy: string | undefined
}

type WrittenAudit = WrittenGateway['audit']
type WrittenWitnesses = NonNullable<WrittenAudit['witnesses']>
type WrittenWitness = NonNullable<WrittenWitnesses['members']>[number]

export interface VouchingSettings {
  readonly witnesses: WitnessesSettings | undefined
  readonly stamps: StampsSettings | undefined
}

/** One whose end is missing counts too, and is none when it is read: a file may be half written. */
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*(?:-----END CERTIFICATE-----)?/g

interface Sources {
  readonly configFile: string
  readonly written: Pick<WrittenAudit, keyof VouchingSettings>
  readonly readFile: ReadFile | undefined
}

/** Reads who vouches for the audit trail besides the gateway itself. */
export function loadVouching({ configFile, written, readFile }: Sources): Parsed<VouchingSettings> {
  const faults: Fault[] = []
  const check = (path: string, reason: string | undefined) => {
    if (reason !== undefined) faults.push({ file: configFile, path: `$.audit.${path}`, reason })
  }
  const certificates = (path: string, file: string): readonly string[] => {
    const { value, reason } = readCertificates(file, readFile)
    check(path, reason)
    return value
  }
  const ca = (path: string, file: string | undefined) =>
    file === undefined ? undefined : certificates(`${path}.caFile`, file).join('\n')
  const { witnesses, stamps } = written
  const named = witnesses?.policyFile === undefined ? witnesses : fromPolicy(witnesses.policyFile, readFile)
  if (named !== undefined && 'fault' in named) check('witnesses.policyFile', named.fault)
  const {
    quorum,
    members = [],
  }: { members?: WrittenWitnesses['members']; quorum?: number | Quorum | undefined } =
    named === undefined || 'fault' in named ? {} : named
  const asked = members.map(({ url, key, caFile }, index) => {
    const path = `witnesses.members[${index}]`
    check(`${path}.url`, urlFault(url))
    check(`${path}.key`, witnessKeyFault(key) ?? sameKeyFault(members, index))
    return { url: url.replace(/\/$/, ''), key, ca: ca(path, caFile) }
  })
  check('witnesses', witnesses && alternativesFault(witnesses))
  if (typeof quorum === 'number' && quorum > members.length && members.length > 0) {
    check('witnesses.quorum', `must be at most the number of witnesses, ${members.length}`)
  }
  const witnessesInForce = witnesses && {
    quorum:
      typeof quorum === 'object' ? quorum : { least: quorum ?? 0, members: asked.map(({ key }) => key) },
    everyMs: windowToMs(witnesses.every),
    members: asked,
  }
  if (stamps !== undefined) check('stamps.url', urlFault(stamps.url))
  const stampsInForce = stamps && {
    url: stamps.url,
    everyMs: windowToMs(stamps.every),
    authorities: certificates('stamps.authorityFile', stamps.authorityFile),
    ca: ca('stamps', stamps.caFile),
    policy: stamps.policy,
  }
  return faults.length > 0 ? { faults } : { value: { witnesses: witnessesInForce, stamps: stampsInForce } }
}

/** The certificates in a text, each in PEM; one without an end as it is. */
export function certificatesIn(text: string): readonly string[] {
  return text.match(CERTIFICATE) ?? []
}

function alternativesFault({ policyFile, quorum, members }: WrittenWitnesses): string | undefined {
  if (policyFile !== undefined) {
    return quorum === undefined && members === undefined
      ? undefined
      : 'must have either "policyFile", or "quorum" and "members"'
  }
  return quorum !== undefined && members !== undefined
    ? undefined
    : 'must have "quorum" and "members", or "policyFile"'
}

/** The witnesses of a policy; its logs are for those who verify. */
function fromPolicy(
  file: string,
  readFile: ReadFile | undefined,
): { readonly quorum: Quorum; readonly members: readonly WrittenWitness[] } | { readonly fault: string } {
  const { value, faults } = loadFile(file, (_, text) => ({ value: text }), { readFile })
  if (faults !== undefined) {
    return { fault: `names a file that is not usable: ${faults.map(describeFault).join(', ')}` }
  }
  let policy: TlogPolicy
  try {
    policy = parseTlogPolicy(value.value)
  } catch (error) {
    if (!(error instanceof PolicyFault)) throw error
    return { fault: `names ${file}, and that is no policy: ${error.message}` }
  }
  if (policy.quorum.least === 0)
    return { fault: `names ${file}, whose quorum is none: leave "witnesses" out` }
  const members: WrittenWitness[] = []
  for (const { name, key, url } of policy.witnesses) {
    const fault = url === undefined ? 'is missing, so that it cannot be asked' : urlFault(url)
    if (url === undefined || fault !== undefined)
      return { fault: `names ${file}: the URL of the witness ${name} ${fault}` }
    members.push({ url, key })
  }
  return { quorum: policy.quorum, members }
}

/** One key under two names would count twice. */
function sameKeyFault(members: readonly WrittenWitness[], index: number): string | undefined {
  const material = keyMaterial(members[index]?.key ?? '')
  const first = members.findIndex(({ key }) => keyMaterial(key) === material)
  return first < index ? `must not be the key of $.audit.witnesses.members[${first}] too` : undefined
}

function readCertificates(
  file: string,
  readFile: ReadFile | undefined,
): { readonly value: readonly string[]; readonly reason?: string } {
  const { value, faults } = loadFile(file, (_, text) => ({ value: text }), { readFile })
  if (faults !== undefined) {
    return { value: [], reason: `names a file that is not usable: ${faults.map(describeFault).join(', ')}` }
  }
  const found = certificatesIn(value.value)
  const areSound = found.every((pem) => {
    try {
      return new X509Certificate(pem).serialNumber !== ''
    } catch {
      return false
    }
  })
  if (found.length > 0 && areSound) return { value: found }
  return { value: [], reason: 'must name a file that holds certificates in PEM' }
}
