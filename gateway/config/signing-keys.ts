import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto'
import { type Fault, keyFaults, type Parsed } from './faults.ts'
import type { WrittenGateway } from './keys/gateway-keys.ts'
import { loadText, type ReadFile, shownName } from './load-file.ts'
import type { Settings } from './settings.ts'
import { groupsInUse } from './upstreams/group-rules.ts'

type SigningAlgorithm = NonNullable<WrittenGateway['signing']>['algorithm']

interface Sources extends Pick<WrittenGateway, 'signing'> {
  readonly configFile: string
  readonly readFile: ReadFile | undefined
}

const KINDS: Readonly<Record<SigningAlgorithm, string>> = {
  'ecdsa-p256-sha256': 'an EC key on P-256',
  ed25519: 'an Ed25519 key',
  'rsa-pss-sha512': 'an RSA key of 2048 to 4096 bits',
}

/** @returns the private key, then the public ones of `alsoPublish`, in PEM */
export function loadSigningKeys({ configFile, signing, readFile }: Sources): Parsed<readonly string[]> {
  if (signing === undefined) return { value: [] }
  const { keyFile, algorithm, iss, tan, alsoPublish } = signing
  const faults: Fault[] = []
  if (iss !== undefined && algorithm !== 'rsa-pss-sha512')
    faults.push({ file: configFile, path: '$.signing.iss', reason: 'needs an RSA key: uk-jws is PS256' })
  if (tan !== undefined && iss === undefined)
    faults.push({ file: configFile, path: '$.signing.tan', reason: 'needs "iss"' })
  const read = (file: string, path: string, faultOf: (pem: string) => string | undefined): string => {
    const { text = '', reason } = loadText(file, faultOf, readFile)
    if (reason !== undefined) faults.push({ file: configFile, path, reason: `${shownName(file)}: ${reason}` })
    return text
  }
  const own = read(keyFile, '$.signing.keyFile', (pem) => {
    const found = algorithmOf(() => createPrivateKey(pem))
    return found === algorithm
      ? undefined
      : `must hold ${KINDS[algorithm]}, private and not encrypted, in PEM`
  })
  const others = alsoPublish.map((file, index) =>
    read(file, `$.signing.alsoPublish[${index}]`, (pem) =>
      algorithmOf(() => createPublicKey(pem)) === undefined
        ? `must hold ${Object.values(KINDS).join(' or ')}, in PEM`
        : undefined,
    ),
  )
  if (faults.length > 0) return { faults }
  return {
    value: [
      own,
      ...others.map((pem) => String(createPublicKey(pem).export({ format: 'pem', type: 'spki' }))),
    ],
  }
}

/** @returns undefined when there is no key, or a key of another kind */
function algorithmOf(read: () => KeyObject): SigningAlgorithm | undefined {
  try {
    const { asymmetricKeyType, asymmetricKeyDetails: { namedCurve, modulusLength = 0 } = {} } = read()
    if (asymmetricKeyType === 'ec' && namedCurve === 'prime256v1') return 'ecdsa-p256-sha256'
    if (asymmetricKeyType === 'ed25519') return 'ed25519'
    const isLong = modulusLength >= 2048 && modulusLength <= 4096
    return asymmetricKeyType === 'rsa' && isLong ? 'rsa-pss-sha512' : undefined
  } catch {
    return undefined
  }
}

export function signingConflicts(
  file: string,
  settings: Pick<Settings, 'signing' | 'routes' | 'upstream' | 'upstreams'>,
): Fault[] {
  const groups = groupsInUse(settings)
  return keyFaults(file, settings.routes, ({ signsResponses, signsRequests, upstream, sending }) => {
    const fault = (reason: string) => ({ key: 'signatures', reason })
    if (!(signsResponses || signsRequests)) return undefined
    if (settings.signing === undefined)
      return fault('needs a key for what is signed: set "signing" of the file')
    const targets = groups.find(({ name }) => name === upstream)?.targets ?? []
    if (!signsRequests || targets.length < 2) return undefined
    if (sending?.namesTarget === true)
      return fault('must not have "upstream" where "upstreamHost" is "target" and there are several targets')
    return new Set(targets.map((target) => /^(?:https|h2):/.test(target))).size > 1
      ? fault('must not have "upstream" where some services speak TLS and others do not')
      : undefined
  })
}
