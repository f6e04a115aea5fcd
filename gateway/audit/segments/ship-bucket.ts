import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { STATUS_CODES } from 'node:http'
import type { Readable } from 'node:stream'
import {
  HeadObjectCommand,
  type HeadObjectCommandOutput,
  PutObjectCommand,
  type PutObjectCommandInput,
  PutObjectRetentionCommand,
  S3Client,
  type S3ServiceException,
} from '@aws-sdk/client-s3'
import { Upload } from '@aws-sdk/lib-storage'
import { windowToMs } from '../../config/rules/window-rule.ts'
import type { AuditBucket } from '../../config/settings.ts'
import { credentialsIn } from './bucket-credentials.ts'
import { type CutRule, type Digest, joinedDigest, type ShipSource, type ShipTarget } from './ship-target.ts'

/** One PUT may send 5 GiB. A part is kept in memory. */
const CUT: CutRule = { fromBytes: 5 * 1024 ** 3 + 1, partBytes: 32 * 1024 ** 2 }
const MAX_PARTS = 10_000
/** Time for the server to join the parts. */
const COMPLETE_MS = 600_000
const FORBIDDEN = 403
const NOT_FOUND = 404

type Seen = HeadObjectCommandOutput | typeof FORBIDDEN | typeof NOT_FOUND

export class ShipBucket implements ShipTarget {
  readonly name: string
  readonly cut: CutRule
  readonly #bucket: AuditBucket
  readonly #client: S3Client

  constructor(bucket: AuditBucket, cut = CUT) {
    this.name = `${bucket.endpoint}/${bucket.bucket}/${bucket.prefix}`
    this.cut = cut
    this.#bucket = bucket
    this.#client = makeClient(bucket)
  }

  async has(name: string, digest: Digest): Promise<boolean> {
    return isCopy(await this.#head(name), digest)
  }

  async put(name: string, source: ShipSource, digest: Digest, replaces: boolean): Promise<void> {
    if (digest.parts !== undefined && digest.parts.length > MAX_PARTS) {
      throw new Error(`${name} is too large to be sent in ${MAX_PARTS} parts: lower audit.rotation.maxBytes`)
    }
    const before = await this.#head(name)
    if (isCopy(before, digest)) return this.#lockParts(name, digest, before)
    if (!replaces && typeof before === 'object') {
      throw new Error(`${this.#urlOf(name)} is there already, with other bytes`)
    }
    // After a 403 it is not known whether an object of this name exists.
    const condition = !replaces && before === FORBIDDEN ? { IfNoneMatch: '*' } : {}
    await this.#send(name, source, digest, condition)
    const after = await this.#head(name)
    if (after === FORBIDDEN) throw new Error(`HEAD ${this.#urlOf(name)}: 403 Forbidden`)
    if (!isCopy(after, digest))
      throw new Error(`${this.#urlOf(name)} does not have the checksum that was sent`)
    await this.#lockParts(name, digest, after)
  }

  async #send(
    name: string,
    source: ShipSource,
    digest: Digest,
    condition: Pick<PutObjectCommandInput, 'IfNoneMatch'>,
  ): Promise<void> {
    const { bytes, parts } = digest
    const { mode, until } = this.#lock() ?? {}
    const object = {
      ...this.#place(name),
      ...condition,
      ObjectLockMode: mode,
      ObjectLockRetainUntilDate: until,
    }
    // The body has no more bytes than the digest covers.
    const Body =
      'path' in source ? createReadStream(source.path, { end: Math.max(bytes - 1, 0) }) : source.bytes
    const broken = Promise.withResolvers<never>()
    if ('path' in Body) Body.once('error', broken.reject)
    const send =
      parts === undefined
        ? inTime(bytes, (abortSignal) => {
            const whole = {
              ...object,
              Body,
              ContentLength: bytes,
              ChecksumSHA256: base64(digest.sha256),
              ContentMD5: base64(digest.md5),
            }
            return this.#client.send(new PutObjectCommand(whole), { abortSignal })
          })
        : inTime(bytes, (signal) => this.#sendParts({ ...object, Body }, signal), COMPLETE_MS)
    try {
      await Promise.race([send, broken.promise])
    } catch (error) {
      throw this.#fault('PUT', name, error)
    } finally {
      if ('path' in Body) Body.destroy()
    }
  }

  /** A lifecycle rule of the bucket must remove the parts that a killed process leaves. */
  async #sendParts(object: PutObjectCommandInput, signal: AbortSignal): Promise<void> {
    const upload = new Upload({
      client: this.#client,
      params: { ...object, ChecksumAlgorithm: 'SHA256' },
      partSize: this.cut.partBytes,
      queueSize: 1,
    })
    signal.addEventListener('abort', () => void upload.abort())
    await upload.done()
  }

  /** Without `s3:ListBucket`, 403 may mean that the object is missing. */
  async #head(name: string): Promise<Seen> {
    const command = new HeadObjectCommand({ ...this.#place(name), ChecksumMode: 'ENABLED' })
    try {
      return await inTime(0, (abortSignal) => this.#client.send(command, { abortSignal }))
    } catch (error) {
      const status = statusOf(error)
      if (status === FORBIDDEN || status === NOT_FOUND) return status
      throw this.#fault('HEAD', name, error)
    }
  }

  /** Locks an object sent in parts, because some servers ignore the lock of such an upload. */
  async #lockParts(name: string, { parts }: Digest, seen: Seen): Promise<void> {
    const lock = this.#lock()
    if (lock === undefined || parts === undefined) return
    if (typeof seen === 'object' && seen.ObjectLockMode === lock.mode) return
    const command = new PutObjectRetentionCommand({
      ...this.#place(name),
      Retention: { Mode: lock.mode, RetainUntilDate: lock.until },
    })
    try {
      await inTime(0, (abortSignal) => this.#client.send(command, { abortSignal }))
    } catch (error) {
      throw this.#fault('PUT', name, error)
    }
  }

  #lock(): { readonly mode: 'GOVERNANCE' | 'COMPLIANCE'; readonly until: Date } | undefined {
    const { objectLock } = this.#bucket
    if (objectLock === undefined) return undefined
    return { mode: objectLock.mode, until: new Date(Date.now() + windowToMs(objectLock.retain)) }
  }

  #place(name: string): { readonly Bucket: string; readonly Key: string } {
    return { Bucket: this.#bucket.bucket, Key: `${this.#bucket.prefix}${name}` }
  }

  #urlOf(name: string): string {
    const { Bucket, Key } = this.#place(name)
    return `${this.#bucket.endpoint.replace(/\/$/, '')}/${Bucket}/${Key.split('/').map(encodeURIComponent).join('/')}`
  }

  #fault(method: string, name: string, error: unknown): Error {
    return new Error(`${method} ${this.#urlOf(name)}: ${reasonOf(error as Error)}`)
  }
}

function isCopy(seen: Seen, digest: Digest): boolean {
  if (typeof seen !== 'object' || seen.ContentLength !== digest.bytes) return false
  return seen.ChecksumSHA256 === undefined
    ? etagsOf(digest).includes(seen.ETag ?? '')
    : checksumsOf(digest).includes(seen.ChecksumSHA256)
}

/** An object in parts has a checksum of checksums; not every server adds the number of parts. */
function checksumsOf({ sha256, parts }: Digest): string[] {
  if (parts === undefined) return [base64(sha256)]
  const joined = base64(joinedDigest('sha256', parts))
  return [base64(sha256), `${joined}-${parts.length}`, joined]
}

function etagsOf({ md5, parts }: Digest): string[] {
  return parts === undefined ? [`"${md5}"`] : [`"${md5}"`, `"${joinedDigest('md5', parts)}-${parts.length}"`]
}

function base64(hex: string): string {
  return Buffer.from(hex, 'hex').toString('base64')
}

const CONNECT_TIMEOUT_MS = 5000
const IDLE_TIMEOUT_MS = 30_000
const MAX_ATTEMPTS = 3
/** Time for a request without a body, with its retries. */
const TIMEOUT_MS = 30_000
const SLOWEST_BYTES_PER_MS = 50
/** Longest response: the SDK keeps it whole. */
const MAX_RESPONSE_BYTES = 64 * 1024

function makeClient({ endpoint, region, credentialsFile }: AuditBucket): S3Client {
  const client = new S3Client({
    endpoint,
    region,
    forcePathStyle: true,
    maxAttempts: MAX_ATTEMPTS,
    requestHandler: { connectionTimeout: CONNECT_TIMEOUT_MS, socketTimeout: IDLE_TIMEOUT_MS },
    // Objects are sent with their SHA-256. Servers other than Amazon's may not know the SDK's own checksum.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    // The keys expire at once, so the SDK has them read for each request. Without a file the SDK looks for keys itself.
    ...(credentialsFile === undefined
      ? {}
      : { credentials: async () => ({ ...credentialsIn(credentialsFile), expiration: new Date() }) }),
  })
  client.middlewareStack.add(
    (next) => async (args) => {
      const result = await next(args)
      const response = result.response as { body: Readable }
      response.body = response.body.compose(brokenOff) as Readable
      return result
    },
    { step: 'deserialize', priority: 'low' },
  )
  return client
}

async function* brokenOff(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let bytes = 0
  for await (const chunk of chunks) {
    bytes += chunk.length
    if (bytes > MAX_RESPONSE_BYTES) throw new Error(`the response has more than ${MAX_RESPONSE_BYTES} bytes`)
    yield chunk
  }
}

/** Limits the time of a request, whatever the server or the source of credentials does. @param bytes of the body */
async function inTime<T>(bytes: number, run: (signal: AbortSignal) => Promise<T>, extraMs = 0): Promise<T> {
  const signal = AbortSignal.timeout(TIMEOUT_MS + extraMs + Math.ceil(bytes / SLOWEST_BYTES_PER_MS))
  const late = once(signal, 'abort').then(() => Promise.reject<never>(signal.reason))
  return Promise.race([run(signal), late])
}

function statusOf(error: unknown): number | undefined {
  return (error as Partial<S3ServiceException>).$metadata?.httpStatusCode
}

/** Gives only the name of a server's error: its message could repeat secrets of the request. */
function reasonOf(error: Error): string {
  const status = statusOf(error)
  if (status === undefined) return error.message || error.name
  if (status < 300) return `${status}, but the response cannot be read`
  const isName = /^[a-z]{1,64}$/i.test(error.name) && !/^(Unknown|UnknownError|Error)$/.test(error.name)
  return `${status} ${isName ? error.name : STATUS_CODES[status]}`
}
