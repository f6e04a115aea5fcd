import { X509Certificate } from 'node:crypto'
import type { Fault, Parsed } from './faults.ts'
import type { WrittenAudit } from './keys/gateway-keys.ts'
import { namedText, type ReadFile } from './load-file.ts'
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

export interface WitnessesSettings {
  readonly quorum: Quorum
  /** The least time between two checkpoints to cosign. */
  readonly everyMs: number
  readonly members: readonly {
    /** The URL above `add-checkpoint`, without a closing slash. */
    readonly url: string
    /** `<name>+<key id>+<base64>`. */
    readonly key: string
    /** PEM: the authorities of its certificate; undefined: those that Node knows. */
    readonly ca: string | undefined
  }[]
}

export interface StampsSettings {
  readonly url: string
  readonly everyMs: number
  /** PEM: the authorities whose stamps are accepted. */
  readonly authorities: readonly string[]
  /** PEM, like `ca` of a witness. */
  readonly ca: string | undefined
  /** Object identifier; undefined: the authority chooses. */
  readonly policy: string | undefined
}

type WrittenWitnesses = NonNullable<WrittenAudit['witnesses']>
type WrittenWitness = NonNullable<WrittenWitnesses['members']>[number]

export interface AttestationSettings {
  readonly witnesses: WitnessesSettings | undefined
  readonly stamps: StampsSettings | undefined
}

/** Also matches a certificate without an end, as in a half-written file. `isCertificate` then refuses it. */
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*(?:-----END CERTIFICATE-----)?/g

interface Sources {
  readonly configFile: string
  readonly written: Pick<WrittenAudit, keyof AttestationSettings>
  readonly readFile: ReadFile | undefined
}

export function loadAttestation({ configFile, written, readFile }: Sources): Parsed<AttestationSettings> {
  const faults: Fault[] = []
  const check = (path: string, reason: string | undefined) => {
    if (reason !== undefined) faults.push({ file: configFile, path: `$.audit.${path}`, reason })
  }
  const certificates = (path: string, file: string): readonly string[] => {
    const { text = '', reason } = namedText(file, readFile)
    const found = certificatesIn(text)
    const isSound = found.length > 0 && found.every(isCertificate)
    check(path, reason ?? (isSound ? undefined : 'must name a file that holds certificates in PEM'))
    return found
  }
  const ca = (path: string, file: string | undefined) =>
    file === undefined ? undefined : certificates(`${path}.caFile`, file).join('\n')
  const { witnesses, stamps } = written
  const policy = witnesses?.policyFile === undefined ? {} : fromPolicy(witnesses.policyFile, readFile)
  check('witnesses.policyFile', policy.fault)
  const { quorum: least = 0 } = witnesses ?? {}
  const members = policy.members ?? witnesses?.members ?? []
  const asked = members.map(({ url, key, caFile }, index) => {
    const path = `witnesses.members[${index}]`
    check(`${path}.url`, urlFault(url))
    check(`${path}.key`, witnessKeyFault(key) ?? sameKeyFault(members, index))
    return { url: url.replace(/\/$/, ''), key, ca: ca(path, caFile) }
  })
  check('witnesses', witnesses && alternativesFault(witnesses))
  if (least > members.length && members.length > 0) {
    check('witnesses.quorum', `must be at most the number of witnesses, ${members.length}`)
  }
  const witnessesInForce = witnesses && {
    quorum: policy.quorum ?? { least, members: asked.map(({ key }) => key) },
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

/** Finds the certificates of a PEM text, also one that lacks its end line. */
export function certificatesIn(text: string): readonly string[] {
  return text.match(CERTIFICATE) ?? []
}

function alternativesFault({ policyFile, quorum, members }: WrittenWitnesses): string | undefined {
  const isNamed = policyFile !== undefined
  return [quorum, members].every((part) => (part === undefined) === isNamed)
    ? undefined
    : 'must have either "policyFile", or "quorum" and "members"'
}

/** Reads the witnesses and the quorum of a policy. The logs in it are only for programs that verify. */
function fromPolicy(
  file: string,
  readFile: ReadFile | undefined,
): { readonly quorum?: Quorum; readonly members?: readonly WrittenWitness[]; readonly fault?: string } {
  const { text = '', reason } = namedText(file, readFile)
  if (reason !== undefined) return { fault: reason }
  let policy: TlogPolicy
  try {
    policy = parseTlogPolicy(text)
  } catch (error) {
    if (!(error instanceof PolicyFault)) throw error
    return { fault: `names ${file}, and that is no policy: ${error.message}` }
  }
  const { quorum, witnesses } = policy
  if (quorum.least === 0) return { fault: `names ${file}, whose quorum is none: leave "witnesses" out` }
  for (const { name, url } of witnesses) {
    const fault = url === undefined ? 'is missing, so that it cannot be asked' : urlFault(url)
    if (fault !== undefined) return { fault: `names ${file}: the URL of the witness ${name} ${fault}` }
  }
  return { quorum, members: witnesses.map(({ key, url = '' }) => ({ key, url })) }
}

function sameKeyFault(members: readonly WrittenWitness[], index: number): string | undefined {
  const material = keyMaterial(members[index]?.key ?? '')
  const first = members.findIndex(({ key }) => keyMaterial(key) === material)
  return first < index ? `must not be the key of $.audit.witnesses.members[${first}] too` : undefined
}

export function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).serialNumber !== ''
  } catch {
    return false
  }
}
