import { hash } from 'node:crypto'
import { type BucketRequests, checksumHeaders, codeIn, textOf } from './bucket-requests.ts'
import type { Digest } from './ship-target.ts'

export interface ShippedObject {
  readonly name: string
  readonly body: Blob
  /** Of the object that is made. */
  readonly headers: Readonly<Record<string, string>>
  /** Headers of the request that makes it; none: whatever is there. */
  readonly condition: Readonly<Record<string, string>>
}

/** A part that did not arrive is sent again: the others need not be. */
const MAX_TRIES = 3
/** The server puts the parts together, which may take minutes. */
const COMPLETE_TIMEOUT_MS = 600_000

/**
 * Sends an object in parts (CreateMultipartUpload, UploadPart, CompleteMultipartUpload), each with its checksum. The object is
 * there when all of it is there; what was sent of one that fails is given up.
 *
 * @throws Error that names the object.
 */
export async function uploadInParts(
  requests: BucketRequests,
  object: ShippedObject,
  parts: readonly Digest[],
): Promise<void> {
  const upload = new MultipartUpload(requests, object)
  await upload.begin()
  try {
    let at = 0
    for (const part of parts) {
      await upload.send(object.body.slice(at, at + part.bytes), part)
      at += part.bytes
    }
    await upload.complete()
  } catch (error) {
    await upload.abort()
    throw error
  }
}

class MultipartUpload {
  readonly #requests: BucketRequests
  readonly #object: ShippedObject
  #id = ''
  /** Of each part, as the last request names it. */
  readonly #sent: string[] = []

  constructor(requests: BucketRequests, object: ShippedObject) {
    this.#requests = requests
    this.#object = object
  }

  async begin(): Promise<void> {
    const { name, headers } = this.#object
    const checksum = { 'x-amz-checksum-algorithm': 'SHA256', 'x-amz-checksum-type': 'COMPOSITE' }
    const response = await this.#requests.send({
      method: 'POST',
      name,
      query: { uploads: '' },
      headers: { ...headers, ...checksum },
    })
    if (!response.ok) throw await this.#requests.fault('POST', name, response)
    const id = memberOf(await textOf(response), 'UploadId')
    if (id === undefined) throw new Error(`${this.#requests.urlOf(name)}: the server named no upload`)
    this.#id = id
  }

  async send(body: Blob, part: Digest): Promise<void> {
    const { name } = this.#object
    const number = this.#sent.length + 1
    const query = { partNumber: String(number), uploadId: this.#id }
    for (let tries = 1; ; tries++) {
      const fault = await this.#sendOnce({ method: 'PUT', name, query, headers: checksumHeaders(part), body })
      if (fault === undefined) break
      if (tries === MAX_TRIES) throw fault
    }
  }

  async #sendOnce(request: Parameters<BucketRequests['send']>[0]): Promise<Error | undefined> {
    const { name } = this.#object
    let response: Response
    try {
      response = await this.#requests.send(request)
    } catch (error) {
      return error as Error
    }
    if (!response.ok) return this.#requests.fault('PUT', name, response)
    const etag = response.headers.get('etag')
    await response.body?.cancel()
    if (etag === null) return new Error(`${this.#requests.urlOf(name)}: the server gave a part no ETag`)
    const checksum = request.headers?.['x-amz-checksum-sha256']
    this.#sent.push(
      `<Part><PartNumber>${this.#sent.length + 1}</PartNumber><ETag>${escaped(etag)}</ETag>` +
        `<ChecksumSHA256>${checksum}</ChecksumSHA256></Part>`,
    )
    return undefined
  }

  async complete(): Promise<void> {
    const { name, condition } = this.#object
    const xmlns = 'http://s3.amazonaws.com/doc/2006-03-01/'
    const text = `<CompleteMultipartUpload xmlns="${xmlns}">${this.#sent.join('')}</CompleteMultipartUpload>`
    const bytes = Buffer.from(text)
    const response = await this.#requests.send({
      method: 'POST',
      name,
      query: { uploadId: this.#id },
      headers: {
        ...condition,
        'content-type': 'application/xml',
        'x-amz-content-sha256': hash('sha256', bytes),
      },
      body: new Blob([bytes]),
      timeoutMs: COMPLETE_TIMEOUT_MS,
    })
    if (!response.ok) throw await this.#requests.fault('POST', name, response)
    // The status is sent before the work is done, so an error may follow it.
    const said = await textOf(response)
    if (said.includes('<Code>'))
      throw new Error(`POST ${this.#requests.urlOf(name)}: ${codeIn(said) ?? 'an error without a name'}`)
  }

  /** The parts would cost room for ever. What cannot be given up now is for the lifecycle rules of the bucket. */
  async abort(): Promise<void> {
    const { name } = this.#object
    try {
      const response = await this.#requests.send({ method: 'DELETE', name, query: { uploadId: this.#id } })
      await response.body?.cancel()
    } catch {
      // The failure of the upload is what is told.
    }
  }
}

/** The text of an element of XML, in which servers escape a few characters. */
function memberOf(xml: string, name: string): string | undefined {
  const text = new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml)?.[1]
  return text
    ?.replaceAll('&quot;', '"')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&')
}

function escaped(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}
