import { openAsBlob } from 'node:fs'
import type { AuditBucket } from '../../config/settings.ts'
import { BucketRequests, base64, checksumHeaders } from './bucket-requests.ts'
import { type ShippedObject, uploadInParts } from './multipart-upload.ts'
import {
  type CutRule,
  type Digest,
  digestOf,
  joinedDigest,
  type ShipSource,
  type ShipTarget,
} from './ship-target.ts'

/** One PUT may send 5 GiB, and an object may have 10,000 parts, which is as much as an object of S3 may have at all. */
const CUT: CutRule = { fromBytes: 5 * 1024 ** 3 + 1, partBytes: 512 * 1024 ** 2 }
const MAX_PARTS = 10_000
const FORBIDDEN = 403
const NOT_FOUND = 404
const LOCK_MODE = 'x-amz-object-lock-mode'
/** For when it is not known whether the name is there. */
const ONLY_IF_NEW = { 'if-none-match': '*' }

/** Copies to a bucket of a server that speaks the S3 protocol. */
export class ShipBucket implements ShipTarget {
  readonly name: string
  readonly cut: CutRule
  readonly #bucket: AuditBucket
  readonly #requests: BucketRequests

  /** @param cut from which size on an object is sent in parts; other sizes in tests. */
  constructor(bucket: AuditBucket, cut = CUT) {
    this.name = `${bucket.endpoint}/${bucket.bucket}/${bucket.prefix}`
    this.cut = cut
    this.#bucket = bucket
    this.#requests = new BucketRequests(bucket)
  }

  async has(name: string, digest: Digest): Promise<boolean> {
    return isCopy(await this.#head(name), digest)
  }

  async put(name: string, source: ShipSource, digest: Digest, replaces: boolean): Promise<void> {
    const { parts } = digest
    if (parts !== undefined && parts.length > MAX_PARTS) {
      throw new Error(`${name} is larger than an object of S3 may be: lower audit.rotation.maxBytes`)
    }
    const before = await this.#head(name)
    if (isCopy(before, digest)) return this.#lockParts(name, digest, before)
    if (!replaces && before.ok) {
      throw new Error(`${this.#requests.urlOf(name)} is there already, with other bytes`)
    }
    const body = 'path' in source ? await openAsBlob(source.path) : new Blob([new Uint8Array(source.bytes)])
    const condition = !replaces && before.status === FORBIDDEN ? ONLY_IF_NEW : {}
    const object = { name, body, headers: this.#lockHeaders(), condition }
    if (parts === undefined) await this.#putWhole(object, digest)
    else await uploadInParts(this.#requests, object, parts)
    const after = await this.#head(name)
    if (after.status === FORBIDDEN) throw await this.#requests.fault('HEAD', name, after)
    if (!isCopy(after, digest))
      throw new Error(`${this.#requests.urlOf(name)} does not have the checksum that was sent`)
    await this.#lockParts(name, digest, after)
  }

  async #putWhole({ name, body, headers, condition }: ShippedObject, digest: Digest): Promise<void> {
    const all = { ...headers, ...condition, ...checksumHeaders(digest) }
    const response = await this.#requests.send({ method: 'PUT', name, headers: all, body })
    if (!response.ok) throw await this.#requests.fault('PUT', name, response)
    await response.body?.cancel()
  }

  /**
   * Of what is there, or 404, or 403: those who may not list the bucket (`s3:ListBucket`) are told no more of what is not there.
   */
  async #head(name: string): Promise<Response> {
    const headers = { 'x-amz-checksum-mode': 'ENABLED' }
    const response = await this.#requests.send({ method: 'HEAD', name, headers })
    await response.body?.cancel()
    if (response.ok || response.status === NOT_FOUND || response.status === FORBIDDEN) return response
    throw await this.#requests.fault('HEAD', name, response)
  }

  /** Not every server locks what came in parts as it was asked to. One may also not show whether it did. */
  async #lockParts(name: string, { parts }: Digest, { headers }: Response): Promise<void> {
    const lock = this.#lock()
    if (lock === undefined || parts === undefined || headers.get(LOCK_MODE) === lock.mode) return
    const { mode, until } = lock
    const xmlns = 'http://s3.amazonaws.com/doc/2006-03-01/'
    const text = `<Retention xmlns="${xmlns}"><Mode>${mode}</Mode><RetainUntilDate>${until}</RetainUntilDate></Retention>`
    const response = await this.#requests.send({
      method: 'PUT',
      name,
      query: { retention: '' },
      headers: checksumHeaders(await digestOf({ bytes: Buffer.from(text) })),
      body: new Blob([text]),
    })
    if (!response.ok) throw await this.#requests.fault('PUT', name, response)
    await response.body?.cancel()
  }

  #lockHeaders(): Record<string, string> {
    const lock = this.#lock()
    return lock === undefined
      ? {}
      : { [LOCK_MODE]: lock.mode, 'x-amz-object-lock-retain-until-date': lock.until }
  }

  #lock(): { readonly mode: string; readonly until: string } | undefined {
    const { objectLock } = this.#bucket
    if (objectLock === undefined) return undefined
    return { mode: objectLock.mode, until: new Date(Date.now() + objectLock.retainMs).toISOString() }
  }
}

/** By the checksum that the server has made, or the ETag of one that makes none. */
function isCopy({ ok, headers }: Response, digest: Digest): boolean {
  if (!ok || headers.get('content-length') !== String(digest.bytes)) return false
  const checksum = headers.get('x-amz-checksum-sha256')
  return checksum === null
    ? etagsOf(digest).includes(headers.get('etag') ?? '')
    : checksumsOf(digest).includes(checksum)
}

/** Of an object that came in parts it is made of those of the parts; not every server says how many they were. */
function checksumsOf({ sha256, parts }: Digest): string[] {
  if (parts === undefined) return [base64(sha256)]
  const joined = base64(joinedDigest(parts).sha256)
  return [base64(sha256), `${joined}-${parts.length}`, joined]
}

function etagsOf({ md5, parts }: Digest): string[] {
  return parts === undefined ? [`"${md5}"`] : [`"${md5}"`, `"${joinedDigest(parts).md5}-${parts.length}"`]
}
