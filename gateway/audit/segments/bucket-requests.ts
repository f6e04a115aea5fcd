import { readFileSync } from 'node:fs'
import { STATUS_CODES } from 'node:http'
import { AwsV4Signer } from 'aws4fetch'
import type { AuditBucket } from '../../config/settings.ts'
import type { Digest } from './ship-target.ts'

interface Credentials {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string
}

interface BucketRequest {
  readonly method: string
  /** Of the object, below the prefix. */
  readonly name: string
  readonly query?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Blob
  /** How long the server may take, besides the body's way to it; default 30 s. */
  readonly timeoutMs?: number
}

const TIMEOUT_MS = 30_000
/** A body goes out at this many bytes a millisecond, or the request is given up. */
const SLOWEST_BYTES_PER_MS = 50
/** Of a response that is read. */
const MAX_TEXT_BYTES = 64 * 1024
/** SHA-256 of nothing. */
const EMPTY_SHA256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'

/** Signed requests to a bucket of a server that speaks the S3 protocol, with the path style of addresses. */
export class BucketRequests {
  readonly #bucket: AuditBucket

  constructor(bucket: AuditBucket) {
    this.#bucket = bucket
  }

  /** @returns a response of any status. @throws Error that names the object, when there is none. */
  async send({
    method,
    name,
    query,
    headers,
    body,
    timeoutMs = TIMEOUT_MS,
  }: BucketRequest): Promise<Response> {
    const { region, credentialsFile } = this.#bucket
    const url = new URL(this.urlOf(name))
    for (const [key, value] of Object.entries(query ?? {})) url.searchParams.set(key, value)
    const signer = new AwsV4Signer({
      method,
      url: url.href,
      headers: { 'x-amz-content-sha256': EMPTY_SHA256, ...headers },
      service: 's3',
      region,
      ...credentialsOf(credentialsFile),
    })
    const signed = await signer.sign()
    const signal = AbortSignal.timeout(timeoutMs + Math.ceil((body?.size ?? 0) / SLOWEST_BYTES_PER_MS))
    try {
      const init: RequestInit = { method, headers: signed.headers, signal, redirect: 'error' }
      return await fetch(signed.url, body === undefined ? init : { ...init, body })
    } catch (error) {
      throw new Error(`${method} ${this.urlOf(name)}: ${causeIn(error as Error)}`)
    }
  }

  urlOf(name: string): string {
    const { endpoint, bucket, prefix } = this.#bucket
    const path = `${prefix}${name}`.split('/').map(encodeURIComponent).join('/')
    return `${endpoint.replace(/\/$/, '')}/${bucket}/${path}`
  }

  /** What the server says of a request that it has refused. */
  async fault(method: string, name: string, response: Response): Promise<Error> {
    const { status } = response
    const reason = codeIn(await textOf(response)) ?? STATUS_CODES[status]
    return new Error(`${method} ${this.urlOf(name)}: ${status} ${reason}`)
  }
}

/** The name of an error. A server that is not what it should be could send back what we have sent, for our log. */
export function codeIn(xml: string): string | undefined {
  return /<Code>([a-z]{1,64})</i.exec(xml)?.[1]
}

function causeIn({ cause, message }: Error): string {
  return cause instanceof Error ? cause.message : message
}

/** What a server compares a body with. */
export function checksumHeaders({ sha256, md5 }: Digest): Record<string, string> {
  return {
    'x-amz-content-sha256': sha256,
    'x-amz-sdk-checksum-algorithm': 'SHA256',
    'x-amz-checksum-sha256': base64(sha256),
    // With a lock some servers want this one.
    'content-md5': base64(md5),
  }
}

export function base64(hex: string): string {
  return Buffer.from(hex, 'hex').toString('base64')
}

/** The beginning of a body: as far as it has come when it ends, breaks off, or is too long. */
export async function textOf(response: Response): Promise<string> {
  const reader = response.body?.getReader()
  const pieces: Uint8Array[] = []
  for (let bytes = 0; bytes < MAX_TEXT_BYTES; ) {
    const { value } = (await reader?.read().catch(() => undefined)) ?? {}
    if (value === undefined) break
    pieces.push(value)
    bytes += value.length
  }
  await reader?.cancel().catch(() => {})
  return Buffer.concat(pieces).toString('utf8', 0, MAX_TEXT_BYTES)
}

/** Read for each request, so that keys can be replaced. @throws Error that says what is missing. */
export function credentialsOf(file: string | undefined): Credentials {
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
  const lines = readFileSync(file, 'utf8').matchAll(/^[ \t]*(aws_\w+)[ \t]*=[ \t]*(\S+)[ \t]*$/gim)
  return Object.fromEntries([...lines].map(([, name = '', value = '']) => [name.toUpperCase(), value]))
}
