import { crc32 } from 'node:zlib'
import type { RecordSeal } from './key-secret.ts'

export interface KeptResponse {
  readonly status: number
  /** End-to-end fields, each `name: value` with its CR LF, latin1; empty when the body is not kept. */
  readonly fields: string
  /** latin1. Undefined if it was too long to keep. */
  readonly body: string | undefined
}

/** Keeps only the status of a response, where there is no room for more. */
export function statusOf({ status }: Pick<KeptResponse, 'status'>): KeptResponse {
  return { status, fields: '', body: undefined }
}

export interface KeyRecord {
  /** `begun`: under way; after a crash, the outcome is unknown. `free`: not carried out, so the request may be sent. */
  readonly state: 'begun' | 'unknown' | 'done' | 'free'
  /** A name made by `KeySecret`, like `fingerprint`. */
  readonly caller: string
  /** Epoch milliseconds, on the clock of the run that wrote the file. */
  readonly atMs: number
  readonly keepMs: number
  /** Empty, like `requestId`, when an earlier record was damaged. */
  readonly fingerprint: string
  readonly requestId: string
  /** Only with `done`. */
  readonly response?: KeptResponse | undefined
}

export const NEWLINE = 0x0a
/** Hex of each byte, because V8 takes ten times as long to format 32 bits at once. */
const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))
/** First character of a line of sealed responses. No name of a key begins with it. */
const SEALED = '='
const HEAD =
  /^([\w-]{28}) (?:([\w-]{22}) (begun|unknown|done|free) (\d{1,16}) (\d{1,16}) ([\w-]{22}|-) ([\w.:/+=@-]{1,128}) ([\da-f]{1,8}) )?/
/** Place of a response: bytes back to the sealed line, length of that line, start and end in the text when opened. */
const SPAN = /^(\d{1,9}) (\d{1,9}) (\d{1,9}) (\d{1,9})$/
export const LINE_MAX_BYTES = 300
/** Responses are sealed together up to this size, because to read one, all must be opened. */
const SEALED_MAX_BYTES = 16 * 1024
const NONE = '-'

interface NamedRecord {
  readonly id: string
  readonly record: KeyRecord
}

interface Lines {
  readonly text: string
  /** Where each line begins, and how many bytes it takes with its response. */
  readonly places: readonly { readonly at: number; readonly bytes: number }[]
}

/**
 * Makes lines: `<name of the key> <caller> <state> <atMs> <keepMs> <fingerprint> <request id> <CRC-32> <span>`. Only
 * `done` has a span, and its request id is sealed with the response. The rest needs no sealing, because callers are
 * hashes, and the audit trail has request ids in clear. Sealing several responses together halves the cost.
 */
export function keyLines(all: readonly NamedRecord[], seal: RecordSeal): Lines {
  const places: { at: number; bytes: number }[] = []
  let text = ''
  for (let first = 0; first < all.length; first = places.length) {
    const lines: { clear: string; from: number; to: number }[] = []
    let responses = ''
    for (let next = first; next < all.length && responses.length < SEALED_MAX_BYTES; next++) {
      const { id, record } = all[next] as NamedRecord
      const clear = clearOf(id, record)
      const from = responses.length
      if (record.response !== undefined) responses += responseText(clear, record.requestId, record.response)
      lines.push({ clear, from, to: responses.length })
    }
    const sealed = responses === '' ? '' : `${SEALED}${seal.seal(responses)}\n`
    const start = text.length
    text += sealed
    for (const { clear, from, to } of lines) {
      const at = text.length
      text += from === to ? `${clear}\n` : `${clear}${at - start} ${sealed.length} ${from} ${to}\n`
      places.push({ at, bytes: bytesOnDisk(text.length - at, { from, to }) })
    }
  }
  return { text, places }
}

function clearOf(id: string, record: KeyRecord): string {
  const { state, caller, atMs, keepMs, fingerprint, requestId, response } = record
  const inClear = (response === undefined && requestId) || NONE
  const said = `${id} ${caller} ${state} ${Math.round(atMs)} ${keepMs} ${fingerprint || NONE} ${inClear}`
  const crc = crc32(said)
  return `${said} ${HEX[crc >>> 24]}${HEX[(crc >>> 16) & 255]}${HEX[(crc >>> 8) & 255]}${HEX[crc & 255]} `
}

/**
 * Makes the text of a response before sealing, latin1: the clear part of its line, then `<request id> <status> <length
 * of the fields> <length of the body, or - without one>\n`, fields, body.
 */
export function responseText(
  clear: string,
  requestId: string,
  { status, fields, body }: KeptResponse,
): string {
  return `${clear}${requestId} ${status} ${fields.length} ${body?.length ?? NONE}\n${fields}${body ?? ''}`
}

/** @param text may have further responses @returns undefined when it is not whole, or has another clear part */
export function readResponse(
  clear: string,
  text: Buffer,
): Pick<KeyRecord, 'requestId' | 'response'> | undefined {
  if (text.toString('latin1', 0, clear.length) !== clear) return undefined
  const at = text.indexOf(NEWLINE, clear.length) + 1
  const [requestId = '', status, length, bodyBytes] = text.toString('latin1', clear.length, at - 1).split(' ')
  const from = at + Number(length)
  const to = from + (bodyBytes === NONE ? 0 : Number(bodyBytes))
  if (!(to <= text.length)) return undefined
  const body = bodyBytes === NONE ? undefined : text.toString('latin1', from, to)
  return { requestId, response: { status: Number(status), fields: text.toString('latin1', at, from), body } }
}

/** As in `SPAN`. */
interface Span {
  readonly back: number
  readonly bytes: number
  readonly from: number
  readonly to: number
}

interface ReadLine {
  readonly id: string
  readonly head: Omit<KeyRecord, 'response'> | undefined
  readonly clear: string
  readonly span: Span | undefined
}

/** Counts the sealed response in base64. */
export function bytesOnDisk(lineBytes: number, { from, to }: Pick<Span, 'from' | 'to'>): number {
  return lineBytes + Math.ceil(((to - from) * 4) / 3)
}

export function isSealedLine(line: Buffer): boolean {
  return line[0] === SEALED.charCodeAt(0)
}

/** @param line without its end @returns undefined when the line has no name; no `head` when the head is damaged */
export function readKeyHead(line: Buffer): ReadLine | undefined {
  const written = line.toString('latin1', 0, LINE_MAX_BYTES)
  const [clear, id, caller, state, atMs, keepMs, fingerprint, requestId, crc = ''] = HEAD.exec(written) ?? []
  if (clear === undefined || id === undefined) return undefined
  // A wrong time would make every key of its file expire.
  const isSound = crc32(clear.slice(0, -crc.length - 2)) === Number.parseInt(crc, 16)
  if (!isSound || caller === undefined || fingerprint === undefined || requestId === undefined)
    return { id, head: undefined, clear, span: undefined }
  const head = {
    state: state as KeyRecord['state'],
    caller,
    atMs: Number(atMs),
    keepMs: Number(keepMs),
    fingerprint: fingerprint === NONE ? '' : fingerprint,
    requestId: requestId === NONE ? '' : requestId,
  }
  const numbers = SPAN.exec(written.slice(clear.length))?.slice(1).map(Number)
  if (numbers === undefined) return { id, head, clear, span: undefined }
  const [back = 0, bytes = 0, from = 0, to = 0] = numbers
  return { id, head, clear, span: { back, bytes, from, to } }
}

/**
 * @param at where the record begins
 * @param opened opens the sealed line of `bytes` bytes at `at`; returns undefined when the line is damaged
 * @returns undefined when the record is damaged, or belongs to another key
 */
export function readKeyRecord(
  line: Buffer,
  { id, at }: { readonly id: string; readonly at: number },
  opened: (at: number, bytes: number) => Buffer | undefined,
): KeyRecord | undefined {
  const { head, clear = '', id: found, span } = readKeyHead(line) ?? {}
  if (head === undefined || found !== id) return undefined
  if (head.state !== 'done') return head
  const text = span && opened(at - span.back, span.bytes)?.subarray(span.from, span.to)
  const response = text && readResponse(clear, text)
  return response && { ...head, ...response }
}

/** @param line with its end */
export function openLine(line: Buffer, seal: RecordSeal): Buffer | undefined {
  return seal.open(line.toString('latin1', SEALED.length, line.length - 1))
}
