import { openAsBlob, readFileSync } from 'node:fs'
import { AwsV4Signer } from 'aws4fetch'
import type { AuditBucket } from '../../config/settings.ts'
import type { Digest, ShipSource, ShipTarget } from './ship-target.ts'

interface Credentials {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string
}

/** The largest object that one PUT may send. */
const MAX_BYTES = 5 * 1024 ** 3
/** A request may take this long, and longer for a body that goes out at this many bytes a millisecond. */
const TIMEOUT_MS = 30_000
const SLOWEST_BYTES_PER_MS = 50
/** Of the response to a request that failed. */
const MAX_REASON_BYTES = 4096

/** Copies to a bucket of a server that speaks the S3 protocol, with the path style of addresses. */
export class ShipBucket implements ShipTarget {
  readonly name: string
  readonly #bucket: AuditBucket

  constructor(bucket: AuditBucket) {
    this.name = `${bucket.endpoint}/${bucket.bucket}/${bucket.prefix}`
    this.#bucket = bucket
  }

  async has(name: string, digest: Digest): Promise<boolean> {
    return isCopy(await this.#head(name), digest)
  }

  async put(name: string, source: ShipSource, digest: Digest, replaces: boolean): Promise<void> {
    if (digest.bytes > MAX_BYTES) {
      throw new Error(`${name} has more than the 5 GiB that S3 takes at once: lower audit.rotation.maxBytes`)
    }
    const before = await this.#head(name)
    if (isCopy(before, digest)) return
    if (!replaces && before !== undefined) {
      throw new Error(`${this.#urlOf(name)} is there already, with other bytes`)
    }
    const body = 'path' in source ? await openAsBlob(source.path) : new Blob([new Uint8Array(source.bytes)])
    const response = await this.#send('PUT', name, { ...this.#lockHeaders(), ...checksums(digest) }, body)
    if (!response.ok) throw await this.#fault('PUT', name, response)
    await response.body?.cancel()
    if (!(await this.has(name, digest)))
      throw new Error(`${this.#urlOf(name)} does not have the checksum that was sent`)
  }

  /** Undefined: there is no such object. */
  async #head(name: string): Promise<Headers | undefined> {
    const response = await this.#send('HEAD', name, { 'x-amz-checksum-mode': 'ENABLED' })
    await response.body?.cancel()
    if (response.ok) return response.headers
    if (response.status === 404) return undefined
    throw await this.#fault('HEAD', name, response)
  }

  #lockHeaders(): Record<string, string> {
    const { objectLock } = this.#bucket
    if (objectLock === undefined) return {}
    return {
      'x-amz-object-lock-mode': objectLock.mode,
      'x-amz-object-lock-retain-until-date': new Date(Date.now() + objectLock.retainMs).toISOString(),
    }
  }

  async #send(method: string, name: string, headers: Record<string, string>, body?: Blob): Promise<Response> {
    const { region, credentialsFile } = this.#bucket
    const signer = new AwsV4Signer({
      method,
      url: this.#urlOf(name),
      headers: { 'x-amz-content-sha256': EMPTY_SHA256, ...headers },
      service: 's3',
      region,
      ...credentialsOf(credentialsFile),
    })
    const signed = await signer.sign()
    const signal = AbortSignal.timeout(TIMEOUT_MS + Math.ceil((body?.size ?? 0) / SLOWEST_BYTES_PER_MS))
    try {
      const init: RequestInit = { method, headers: signed.headers, signal, redirect: 'error' }
      return await fetch(signed.url, body === undefined ? init : { ...init, body })
    } catch (error) {
      const { cause, message } = error as Error
      throw new Error(`${method} ${this.#urlOf(name)}: ${cause instanceof Error ? cause.message : message}`)
    }
  }

  #urlOf(name: string): string {
    const { endpoint, bucket, prefix } = this.#bucket
    const path = `${prefix}${name}`.split('/').map(encodeURIComponent).join('/')
    return `${endpoint.replace(/\/$/, '')}/${bucket}/${path}`
  }

  async #fault(method: string, name: string, response: Response): Promise<Error> {
    const reason = /<Code>([^<]*)</.exec(await beginningOf(response))?.[1] ?? response.statusText
    return new Error(`${method} ${this.#urlOf(name)}: ${response.status} ${reason}`)
  }
}

/** SHA-256 of nothing. */
const EMPTY_SHA256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'

/** By the checksum that the server has made, or the ETag of one that makes none. */
function isCopy(headers: Headers | undefined, { bytes, sha256, md5 }: Digest): boolean {
  if (headers?.get('content-length') !== String(bytes)) return false
  const checksum = headers.get('x-amz-checksum-sha256')
  return checksum === null ? headers.get('etag') === `"${md5}"` : checksum === base64(sha256)
}

function checksums({ sha256, md5 }: Digest): Record<string, string> {
  return {
    'x-amz-content-sha256': sha256,
    'x-amz-sdk-checksum-algorithm': 'SHA256',
    'x-amz-checksum-sha256': base64(sha256),
    // With a lock some servers want this one.
    'content-md5': base64(md5),
  }
}

function base64(hex: string): string {
  return Buffer.from(hex, 'hex').toString('base64')
}

async function beginningOf(response: Response): Promise<string> {
  const reader = response.body?.getReader()
  const first = await reader?.read().catch(() => undefined)
  await reader?.cancel().catch(() => {})
  return Buffer.from(first?.value ?? []).toString('utf8', 0, MAX_REASON_BYTES)
}

/** Read for each request, so that keys can be replaced. @throws Error that says what is missing. */
function credentialsOf(file: string | undefined): Credentials {
  const read = file === undefined ? process.env : valuesIn(file)
  const [accessKeyId, secretAccessKey] = [read.AWS_ACCESS_KEY_ID, read.AWS_SECRET_ACCESS_KEY]
  if (!accessKeyId || !secretAccessKey) {
    throw new Error(`${file ?? 'the environment'} has no AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY`)
  }
  const sessionToken = read.AWS_SESSION_TOKEN
  return { accessKeyId, secretAccessKey, ...(sessionToken ? { sessionToken } : {}) }
}

/** `aws_access_key_id = …`, as in ~/.aws/credentials, in capitals or not. */
function valuesIn(file: string): Record<string, string> {
  const lines = readFileSync(file, 'utf8').matchAll(/^\s*(aws_\w+)\s*=\s*(\S+)\s*$/gim)
  return Object.fromEntries([...lines].map(([, name = '', value = '']) => [name.toUpperCase(), value]))
}
