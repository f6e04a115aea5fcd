import { createPrivateKey, X509Certificate } from 'node:crypto'
import { type Fault, keyFaults } from '../faults.ts'
import type { WrittenIntrospection } from '../keys/issuer-keys.ts'
import { LINE_END, loadText, type ReadFile, shownName } from '../load-file.ts'
import { privateUrlFault } from '../rules/value-rules.ts'
import { cacheToMs, MAX_CACHE_MS } from '../rules/window-rule.ts'
import type { IntrospectionSettings, IssuerSettings, Route } from '../settings.ts'

/** RFC 6749 appendix A.2 allows no other characters. */
const CLIENT_SECRET = /^[\x20-\x7e]+$/

export function introspectionSettings(written: WrittenIntrospection): IntrospectionSettings {
  const { cache, negativeCache, ...asWritten } = written
  return { ...asWritten, cacheMs: cacheToMs(cache), negativeCacheMs: cacheToMs(negativeCache) }
}

export function introspectionFault(written: WrittenIntrospection): string | undefined {
  const { url, clientSecretFile, keyFile, certFile, cache, negativeCache } = written
  const unsafe = privateUrlFault(url)
  if (unsafe !== undefined) return `has a url that ${unsafe}`
  if (clientSecretFile !== undefined && keyFile !== undefined)
    return 'must have either "clientSecretFile" or "keyFile", not both'
  if (clientSecretFile === undefined && keyFile === undefined)
    return 'needs "clientSecretFile" or "keyFile": the gateway must prove itself to the endpoint'
  if (certFile !== undefined && keyFile === undefined) return 'needs "keyFile" beside "certFile"'
  for (const [name, span] of Object.entries({ cache, negativeCache }))
    if (cacheToMs(span) > MAX_CACHE_MS) return `must have a ${name} of at most "5m", but it is "${span}"`
  return undefined
}

interface Trust {
  readonly configFile: string
  readonly issuers: readonly Pick<IssuerSettings, 'issuer' | 'introspection'>[]
  readonly routes: readonly Route[]
  readonly readFile: ReadFile | undefined
}

/** @param issuers the top-level issuer first */
export function introspectionConflicts({ configFile, issuers, routes, readFile }: Trust): Fault[] {
  const asked = issuers.filter(({ introspection }) => introspection !== undefined)
  const faults = issuers.flatMap(({ introspection }, index) =>
    introspection === undefined
      ? []
      : fileFaults(introspection, readFile).map(({ key, reason }) => ({
          file: configFile,
          path: `${index === 0 ? '$' : `$.issuers[${index - 1}]`}.introspection.${key}`,
          reason,
        })),
  )
  const trusting = keyFaults(configFile, routes, ({ auth, trustIssuers }) => {
    const names = asked.map(({ issuer }) => issuer).filter((name) => trustIssuers?.has(name) !== false)
    if (!auth.has('bearer') || names.length < 2) return undefined
    const reason = `must name at most one issuer with introspection: the gateway may show a token only to its own issuer, and the row trusts ${names.join(', ')}`
    return { key: 'trustIssuers', reason }
  })
  return [...faults, ...trusting]
}

function fileFaults(settings: IntrospectionSettings, readFile: ReadFile | undefined) {
  const faults: { readonly key: keyof WrittenIntrospection; readonly reason: string }[] = []
  const textOf = (
    key: 'clientSecretFile' | 'keyFile' | 'certFile',
    faultOf: (text: string) => string | undefined,
  ) => {
    const file = settings[key]
    if (file === undefined) return undefined
    const { text, reason } = loadText(file, faultOf, readFile)
    if (reason !== undefined) faults.push({ key, reason: `${shownName(file)}: ${reason}` })
    return text
  }
  textOf('clientSecretFile', (secret) =>
    CLIENT_SECRET.test(secret.replace(LINE_END, ''))
      ? undefined
      : 'must hold one line, the secret of the client',
  )
  const pem = textOf('keyFile', assertionKeyFault)
  textOf('certFile', (cert) => certificateFault(cert, pem))
  return faults
}

function assertionKeyFault(pem: string): string | undefined {
  try {
    const { asymmetricKeyType: type, asymmetricKeyDetails } = createPrivateKey(pem)
    const fits =
      type === 'rsa' ||
      type === 'ed25519' ||
      (type === 'ec' && asymmetricKeyDetails?.namedCurve === 'prime256v1')
    return fits ? undefined : `holds a key of the kind ${type}; it must be P-256, Ed25519 or RSA`
  } catch {
    return 'must hold one private key in PEM, without a password'
  }
}

function certificateFault(cert: string, key: string | undefined): string | undefined {
  try {
    const certificate = new X509Certificate(cert)
    return key === undefined || certificate.checkPrivateKey(createPrivateKey(key))
      ? undefined
      : 'its certificate is not that of the key in "keyFile"'
  } catch {
    return 'must hold a certificate in PEM'
  }
}
