import { once } from 'node:events'
import { STATUS_CODES } from 'node:http'
import type { Readable } from 'node:stream'
import { S3Client, type S3ServiceException } from '@aws-sdk/client-s3'
import type { AuditBucket } from '../../config/settings.ts'
import { credentialsIn } from './bucket-credentials.ts'

const CONNECT_TIMEOUT_MS = 5000
/** A connection on which nothing moves for so long is given up. */
const IDLE_TIMEOUT_MS = 30_000
const MAX_ATTEMPTS = 3
/** The whole of a request with its further attempts, besides the body's way to the server. */
const TIMEOUT_MS = 30_000
/** A body goes out at this many bytes a millisecond, or the request is given up. */
const SLOWEST_BYTES_PER_MS = 50
/** The SDK keeps the whole of a response, so a longer one is broken off. */
const MAX_RESPONSE_BYTES = 64 * 1024

/** The AWS SDK's client for a bucket, with the path style of addresses. */
export function makeClient({ endpoint, region, credentialsFile }: AuditBucket): S3Client {
  const client = new S3Client({
    endpoint,
    region,
    forcePathStyle: true,
    maxAttempts: MAX_ATTEMPTS,
    requestHandler: { connectionTimeout: CONNECT_TIMEOUT_MS, socketTimeout: IDLE_TIMEOUT_MS },
    // Objects are sent with their SHA-256. Servers other than AWS may not know the SDK's own checksum.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    // Expired at once, so that the file is read for each request and keys can be replaced. Without a file: the SDK's own chain.
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

/**
 * Runs a request, and gives it up when its time is over, whatever the server or the source of credentials does.
 *
 * @param bytes of the body
 * @param extraMs for what else the server has to do
 */
export async function inTime<T>(
  bytes: number,
  run: (signal: AbortSignal) => Promise<T>,
  extraMs = 0,
): Promise<T> {
  const signal = AbortSignal.timeout(TIMEOUT_MS + extraMs + Math.ceil(bytes / SLOWEST_BYTES_PER_MS))
  const late = once(signal, 'abort').then(() => Promise.reject<never>(signal.reason))
  return Promise.race([run(signal), late])
}

/** Status of the response that the SDK has made an error of; undefined: there was none. */
export function statusOf(error: unknown): number | undefined {
  return (error as Partial<S3ServiceException>).$metadata?.httpStatusCode
}

/**
 * What the log says of an error of the SDK. Of a server's reason it says only a name: a server that is not what it should be could
 * send back what we have sent.
 */
export function reasonOf(error: Error): string {
  const status = statusOf(error)
  if (status === undefined) return error.message || error.name
  if (status < 300) return `${status}, but what it says cannot be read`
  const isName = /^[a-z]{1,64}$/i.test(error.name) && !/^(Unknown|UnknownError|Error)$/.test(error.name)
  return `${status} ${isName ? error.name : STATUS_CODES[status]}`
}
