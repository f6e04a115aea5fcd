import { createPrivateKey, X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import type { Fault, Parsed } from '../faults.ts'
import { childPath } from '../json/json-path.ts'
import { loadFile, type ReadFile, shownName } from '../load-file.ts'
import { type Dated, timeFault } from '../rules/certificate-times.ts'
import type { Settings } from '../settings.ts'
import { certificatesIn } from '../witness-settings.ts'
import {
  DEFAULT_GROUP,
  type UpstreamTlsFiles,
  type UpstreamTlsSettings,
  type UpstreamTlsTexts,
} from './upstream-group.ts'

interface Sources extends Pick<Settings, 'configFile' | 'upstream' | 'upstreams'> {
  readonly readFile: ReadFile | undefined
}

/** Reads the files of every group with TLS of its own, or reports all faults of all. */
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
    const reader = new Reader(readFile)
    const texts = reader.read(tls)
    if (reader.faults.length === 0) reader.checkPair(tls, texts)
    if (reader.faults.length === 0) reader.checkContext(tls, texts)
    faults.push(
      ...reader.faults.map(({ key, reason }) => ({ file: configFile, path: `${path}.${key}`, reason })),
    )
    files[name] = texts
  }
  return faults.length > 0 ? { faults } : { value: files }
}

/** Every certificate of the groups. */
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

class Reader {
  readonly faults: { readonly key: Key; readonly reason: string }[] = []
  readonly #readFile: ReadFile | undefined

  constructor(readFile: ReadFile | undefined) {
    this.#readFile = readFile
  }

  read({ caFile, certFile, keyFile }: UpstreamTlsSettings): UpstreamTlsTexts {
    if ((certFile === undefined) !== (keyFile === undefined)) {
      const key = certFile === undefined ? 'certFile' : 'keyFile'
      this.faults.push({ key, reason: 'is missing: certFile and keyFile belong together' })
    }
    return {
      ca: this.#text('caFile', caFile, certificatesFault),
      cert: this.#text('certFile', certFile, certificatesFault),
      key: this.#text('keyFile', keyFile, keyFault),
    }
  }

  checkPair({ certFile, keyFile }: UpstreamTlsSettings, { cert, key }: UpstreamTlsTexts): void {
    if (cert === undefined || key === undefined) return
    const [leaf = ''] = certificatesIn(cert)
    if (new X509Certificate(leaf).checkPrivateKey(createPrivateKey(key))) return
    this.#refuse('keyFile', keyFile, `is not the key of the certificate in ${certFile}`)
  }

  /** What OpenSSL alone knows, such as a key that is too short. */
  checkContext({ certFile, caFile }: UpstreamTlsSettings, texts: UpstreamTlsTexts): void {
    try {
      createSecureContext({ ...texts })
    } catch (error) {
      const reason = `OpenSSL does not take it: ${error instanceof Error ? error.message : String(error)}`
      if (certFile === undefined) this.#refuse('caFile', caFile, reason)
      else this.#refuse('certFile', certFile, reason)
    }
  }

  #text(
    key: Key,
    file: string | undefined,
    faultOf: (text: string) => string | undefined,
  ): string | undefined {
    if (file === undefined) return undefined
    const { value, faults } = loadFile(file, (_, text) => ({ value: text }), { readFile: this.#readFile })
    const reason = faults === undefined ? faultOf(value.value) : faults.map((one) => one.reason).join(', ')
    if (reason !== undefined) this.#refuse(key, file, reason)
    return value?.value
  }

  #refuse(key: Key, file: string | undefined, reason: string): void {
    this.faults.push({ key, reason: `${shownName(file ?? '')}: ${reason}` })
  }
}

function certificatesFault(text: string): string | undefined {
  const found = certificatesIn(text)
  if (found.length === 0) return 'must hold certificates in PEM'
  const bad = found.findIndex((pem) => {
    try {
      return new X509Certificate(pem).serialNumber === ''
    } catch {
      return true
    }
  })
  return bad === -1 ? undefined : `certificate ${bad + 1} is not an X.509 certificate`
}

function keyFault(text: string): string | undefined {
  try {
    createPrivateKey(text)
    return undefined
  } catch {
    return text.includes('ENCRYPTED')
      ? 'is encrypted, and nobody is here to give its password'
      : 'must hold one private key in PEM'
  }
}
