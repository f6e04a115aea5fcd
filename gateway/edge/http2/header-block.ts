import type { FrameHeader } from './frame-reader.ts'
import { END_STREAM, PADDED, PRIORITY_FLAG } from './frames.ts'

/** A block that is sent in more is only meant to be work. */
const MAX_FRAMES = 16

/** The compressed fields of HEADERS and the CONTINUATION behind it (RFC 9113 section 4.3). */
export class HeaderBlock {
  readonly id: number
  readonly endsStream: boolean
  /** It says that its stream depends on itself (RFC 7540 section 5.3.1). */
  readonly dependsOnItself: boolean
  readonly #pieces: Buffer[]
  #length: number

  /** @param fields without padding and priority */
  constructor({ id, flags }: FrameHeader, { fields, dependency }: FieldsOfHeaders) {
    this.id = id
    this.endsStream = (flags & END_STREAM) !== 0
    this.dependsOnItself = dependency === id
    this.#pieces = [fields]
    this.#length = fields.length
  }

  /** More of it comes later: the buffer of the socket is larger than what is kept of it. */
  keep(): void {
    this.#pieces[0] = Buffer.from(this.bytes)
  }

  /** @returns false when it is more than we take */
  add(fields: Buffer, maxBytes: number): boolean {
    this.#pieces.push(Buffer.from(fields))
    this.#length += fields.length
    return this.#length <= maxBytes && this.#pieces.length <= MAX_FRAMES
  }

  get bytes(): Buffer {
    return this.#pieces.length === 1 ? (this.#pieces[0] as Buffer) : Buffer.concat(this.#pieces)
  }
}

interface FieldsOfHeaders {
  readonly fields: Buffer
  /** Undefined: it has no priority. */
  readonly dependency: number | undefined
}

/** What HEADERS has beside the fields. @returns undefined when it does not fit into the frame. */
export function fieldsOf(header: FrameHeader, payload: Buffer): FieldsOfHeaders | undefined {
  const content = withoutPadding(header, payload)
  if (content === undefined || !(header.flags & PRIORITY_FLAG))
    return content && { fields: content, dependency: undefined }
  if (content.length < 5) return undefined
  return { fields: content.subarray(5), dependency: content.readUInt32BE(0) & 0x7fffffff }
}

/** RFC 9113 section 6.1. @returns undefined when there is more padding than frame */
export function withoutPadding({ flags }: FrameHeader, payload: Buffer): Buffer | undefined {
  if (!(flags & PADDED)) return payload
  const end = payload.length - (payload[0] ?? 0)
  return end < 1 ? undefined : payload.subarray(1, end)
}
