import { hash, X509Certificate } from 'node:crypto'
import { describeFault, type Fault, type Parsed } from './faults.ts'
import { describeValue } from './json/schema-check.ts'
import { loadFile, type ReadFile } from './load-file.ts'
import { urlFault } from './rules/value-rules.ts'
import { windowToMs } from './rules/window-rule.ts'

/** Who cosigns checkpoints of the log, as plain data. Immutable. */
export interface WitnessesSettings {
  /** How many must have cosigned a checkpoint. */
  readonly quorum: number
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

/** `audit.witnesses` of gateway.json, with its defaults. */
export interface WrittenWitnesses {
  readonly quorum: number
  /** Such as `1m`. */
  readonly every: string
  readonly members: readonly { readonly url: string; readonly key: string; readonly caFile?: string }[]
}

/** `audit.stamps`, likewise. */
export interface WrittenStamps {
  readonly url: string
  readonly every: string
  readonly authorityFile: string
  readonly caFile?: string
  readonly policy?: string
}

export interface VouchingSettings {
  readonly auditWitnesses: WitnessesSettings | undefined
  readonly auditStamps: StampsSettings | undefined
}

const KEY = /^([^\s+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]+={0,2})$/
/** Bytes of a witness's key by its signature type: C2SP tlog-cosignature. */
const KEY_BYTES: ReadonlyMap<number, number> = new Map([
  [0x04, 32],
  [0x06, 1312],
])
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g

interface Sources {
  readonly configFile: string
  readonly written: {
    readonly auditWitnesses: WrittenWitnesses | undefined
    readonly auditStamps: WrittenStamps | undefined
  }
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
  const { auditWitnesses: witnesses, auditStamps: stamps } = written
  const witnessesInForce = witnesses && {
    quorum: witnesses.quorum,
    everyMs: windowToMs(witnesses.every),
    members: witnesses.members.map(({ url, key, caFile }, index) => {
      const path = `witnesses.members[${index}]`
      check(`${path}.url`, urlFault(url))
      check(`${path}.key`, keyFault(key) ?? sameKeyFault(witnesses.members, index))
      return { url: url.replace(/\/$/, ''), key, ca: ca(path, caFile) }
    }),
  }
  if (witnesses !== undefined && witnesses.quorum > witnesses.members.length) {
    check('witnesses.quorum', `must be at most the number of witnesses, ${witnesses.members.length}`)
  }
  if (stamps !== undefined) check('stamps.url', urlFault(stamps.url))
  const stampsInForce = stamps && {
    url: stamps.url,
    everyMs: windowToMs(stamps.every),
    authorities: certificates('stamps.authorityFile', stamps.authorityFile),
    ca: ca('stamps', stamps.caFile),
    policy: stamps.policy,
  }
  return faults.length > 0
    ? { faults }
    : { value: { auditWitnesses: witnessesInForce, auditStamps: stampsInForce } }
}

/** The certificates in a text, each in PEM. */
export function certificatesIn(text: string): readonly string[] {
  return text.match(CERTIFICATE) ?? []
}

/** What is wrong with the verifier key of a witness (C2SP signed-note), or undefined. */
function keyFault(text: string): string | undefined {
  const [, name = '', keyId, base64 = ''] = KEY.exec(text) ?? []
  const bytes = Buffer.from(base64, 'base64')
  if (keyId === undefined || bytes.toString('base64') !== base64) {
    return `must be a verifier key, <name>+<8 hexadecimal digits>+<base64>, but is ${describeValue(text)}`
  }
  const type = bytes[0] as number
  if (KEY_BYTES.get(type) !== bytes.length - 1) {
    return `must be the key of a witness, of signature type 4 or 6, but is of type ${type} with ${bytes.length - 1} bytes`
  }
  const digest = hash('sha256', Buffer.concat([Buffer.from(`${name}\n`), bytes]), 'hex')
  return digest.startsWith(keyId)
    ? undefined
    : `has the key id ${keyId}, and its key has ${digest.slice(0, 8)}`
}

/** One key under two names would count twice. */
function sameKeyFault(members: readonly { readonly key: string }[], index: number): string | undefined {
  const materialOf = (key = '') => KEY.exec(key)?.[3]
  const material = materialOf(members[index]?.key)
  const first = members.findIndex(({ key }) => materialOf(key) === material)
  return first < index ? `must not be the key of $.audit.witnesses.members[${first}] too` : undefined
}

function readCertificates(
  file: string,
  readFile: ReadFile | undefined,
): { readonly value: readonly string[]; readonly reason?: string } {
  const { value, faults } = loadFile(file, (_, text) => ({ value: text }), readFile)
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
