import { createPrivateKey, X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import type { Fault, Parsed } from '../faults.ts'
import { childPath } from '../json/json-path.ts'
import { loadText, type ReadFile, shownName } from '../load-file.ts'
import { type Dated, timeFault } from '../rules/certificate-times.ts'
import type { Settings } from '../settings.ts'
import { certificatesIn, isCertificate } from '../witness-settings.ts'
import {
  DEFAULT_GROUP,
  type UpstreamTlsFiles,
  type UpstreamTlsSettings,
  type UpstreamTlsTexts,
} from './upstream-group.ts'

interface Sources extends Pick<Settings, 'configFile' | 'upstream' | 'upstreams'> {
  readonly readFile: ReadFile | undefined
}

export function loadUpstreamTls({
  configFile,
  upstream,
  upstreams,
  readFile,
}: Sources): Parsed<UpstreamTlsFiles> {
  const faults: Fault[] = []
  const files: Record<string, UpstreamTlsTexts> = {}
  for (const [name, { tls, targets = [] }] of Object.entries(upstreams)) {
    if (tls === undefined) continue
    const path = `${childPath('$.upstreams', name)}.tls`
    const plain = (name === DEFAULT_GROUP ? upstream : targets).find((one) => !/^(?:https|h2):/.test(one))
    if (plain !== undefined) {
      faults.push({ file: configFile, path, reason: `must not be given: no TLS is spoken with ${plain}` })
    }
    const read = readTls(tls, readFile)
    faults.push(
      ...read.faults.map(({ key, reason }) => ({ file: configFile, path: `${path}.${key}`, reason })),
    )
    files[name] = read.texts
  }
  return faults.length > 0 ? { faults } : { value: files }
}

export function upstreamCertificates({
  configFile,
  upstreams,
  upstreamTls,
}: Pick<Settings, 'configFile' | 'upstreams' | 'upstreamTls'>): Dated[] {
  return Object.entries(upstreams).flatMap(([name, { tls }]) => {
    const { ca, cert } = upstreamTls[name] ?? {}
    const dated = (key: 'caFile' | 'certFile', text = ''): Dated[] => {
      const path = `${childPath('$.upstreams', name)}.tls.${key}`
      return certificatesIn(text).map((pem, index) => {
        const certificate = new X509Certificate(pem)
        const label = `${shownName(tls?.[key] ?? '')}: certificate ${index + 1}`
        return {
          file: path,
          owner: key === 'certFile' && index === 0 ? '' : certificate.subject,
          isSpare: key === 'caFile',
          place: { file: configFile, path },
          reasonAt: (nowMs) => {
            const reason = timeFault(certificate, nowMs)
            return reason && `${label} ${reason}`
          },
        }
      })
    }
    return [...dated('caFile', ca), ...dated('certFile', cert)]
  })
}

type Key = 'caFile' | 'certFile' | 'keyFile'

function readTls(tls: UpstreamTlsSettings, readFile: ReadFile | undefined) {
  const faults: { readonly key: Key; readonly reason: string }[] = []
  const refuse = (key: Key, reason: string) =>
    faults.push({ key, reason: `${shownName(tls[key] ?? '')}: ${reason}` })
  const textOf = (key: Key, faultOf: (text: string) => string | undefined) => {
    const file = tls[key]
    if (file === undefined) return undefined
    const { text, reason } = loadText(file, faultOf, readFile)
    if (reason !== undefined) refuse(key, reason)
    return text
  }
  const { certFile, keyFile } = tls
  if ((certFile === undefined) !== (keyFile === undefined)) {
    const key = certFile === undefined ? 'certFile' : 'keyFile'
    faults.push({ key, reason: 'is missing: certFile and keyFile belong together' })
  }
  const texts: UpstreamTlsTexts = {
    ca: textOf('caFile', certificatesFault),
    cert: textOf('certFile', certificatesFault),
    key: textOf('keyFile', keyFault),
  }
  if (faults.length > 0) return { texts, faults }
  try {
    if (texts.cert !== undefined && texts.key !== undefined && !belongTogether(texts.cert, texts.key))
      refuse('keyFile', `is not the key of the certificate in ${certFile}`)
    // Only OpenSSL finds other faults, such as a key that is too short.
    else createSecureContext({ ...texts })
  } catch (error) {
    const reason = `OpenSSL refuses it: ${(error as Error).message}`
    refuse(certFile === undefined ? 'caFile' : 'certFile', reason)
  }
  return { texts, faults }
}

function belongTogether(cert: string, key: string): boolean {
  const [leaf = ''] = certificatesIn(cert)
  return new X509Certificate(leaf).checkPrivateKey(createPrivateKey(key))
}

function certificatesFault(text: string): string | undefined {
  const found = certificatesIn(text)
  if (found.length === 0) return 'must hold certificates in PEM'
  const bad = found.findIndex((pem) => !isCertificate(pem))
  return bad === -1 ? undefined : `certificate ${bad + 1} is not an X.509 certificate`
}

function keyFault(text: string): string | undefined {
  try {
    createPrivateKey(text)
    return undefined
  } catch {
    return text.includes('ENCRYPTED')
      ? 'is encrypted: store it decrypted, readable by the gateway alone'
      : 'must hold one private key in PEM'
  }
}
