import { crc32 } from 'node:zlib'
import type { RecordSeal } from './key-secret.ts'

/** A response that is replayed. */
export interface KeptResponse {
  readonly status: number
  /** End-to-end fields, each `name: value` with its CR LF, latin1; empty when the body is not kept. */
  readonly fields: string
  /** Undefined: it was too long to keep. */
  readonly body: Buffer | undefined
}

/** What is kept of a response where there is no room for more. */
export function statusOf({ status }: Pick<KeptResponse, 'status'>): KeptResponse {
  return { status, fields: '', body: undefined }
}

/** What a line of the journal says of a key. */
export interface KeyRecord {
  /** `begun`: its request is under way, and unknown after a crash. `free`: it was never sent, so it may be sent now. */
  readonly state: 'begun' | 'unknown' | 'done' | 'free'
  /** A name made by `KeySecret`, as `fingerprint`. */
  readonly caller: string
  /** Epoch milliseconds, on the clock of the run that wrote the file. */
  readonly atMs: number
  readonly keepMs: number
  /** Empty, as `requestId`, where its record was damaged. */
  readonly fingerprint: string
  /** The id of the first request. */
  readonly requestId: string
  /** With `done`. */
  readonly response?: KeptResponse | undefined
}

const NEWLINE = 0x0a
const HEAD =
  /^([\w-]{28}) (?:([\w-]{22}) (begun|unknown|done|free) (\d{1,16}) (\d{1,16}) ([\w-]{22}|-) ([\w.:/+=@-]{1,128}) ([\da-f]{1,8}) )?/
const HEAD_MAX_CHARS = 256
/** Not known, or sealed. */
const NONE = '-'

/**
 * `<name of the key> <caller> <state> <atMs> <keepMs> <fingerprint> <request id> <CRC-32> <sealed>`. With `done` the request id
 * is sealed too: `<request id> <status> <length of the fields, or - without a body>\n`, the fields, then the body. The others are not
 * sealed, which takes half the time: callers are names, and the audit trail has ids of requests in clear.
 */
export function keyLine(id: string, record: KeyRecord, seal: RecordSeal): string {
  const { state, caller, atMs, keepMs, fingerprint, requestId, response } = record
  const inClear = (response === undefined && requestId) || NONE
  const said = `${id} ${caller} ${state} ${Math.round(atMs)} ${keepMs} ${fingerprint || NONE} ${inClear}`
  const clear = `${said} ${crc32(said).toString(16)} `
  if (response === undefined) return `${clear}\n`
  const { status, fields, body } = response
  const head = `${requestId} ${status} ${body === undefined ? NONE : fields.length}\n${fields}`
  const text = Buffer.allocUnsafe(head.length + (body?.length ?? 0))
  text.write(head, 'latin1')
  body?.copy(text, head.length)
  return `${clear}${seal.seal(clear, text)}\n`
}

/** @returns undefined when the line has no name; without a head when that is damaged */
export function readKeyHead(line: Buffer):
  | {
      readonly id: string
      readonly head: Omit<KeyRecord, 'response'> | undefined
      readonly clear: string
    }
  | undefined {
  const [clear, id, caller, state, atMs, keepMs, fingerprint, requestId, crc = ''] =
    HEAD.exec(line.toString('latin1', 0, HEAD_MAX_CHARS)) ?? []
  if (clear === undefined || id === undefined) return undefined
  // A wrong time would make every key of its file expire.
  const isSound = crc32(clear.slice(0, -crc.length - 2)) === Number.parseInt(crc, 16)
  if (!isSound || caller === undefined || fingerprint === undefined || requestId === undefined)
    return { id, head: undefined, clear }
  const head = {
    ...{ state: state as KeyRecord['state'], caller, atMs: Number(atMs), keepMs: Number(keepMs) },
    ...{
      fingerprint: fingerprint === NONE ? '' : fingerprint,
      requestId: requestId === NONE ? '' : requestId,
    },
  }
  return { id, head, clear }
}

/** @returns undefined when the line is damaged or that of another key */
export function readKeyLine(line: Buffer, id: string, seal: RecordSeal): KeyRecord | undefined {
  const { head, clear = '', id: found } = readKeyHead(line) ?? {}
  if (head === undefined || found !== id) return undefined
  if (head.state !== 'done') return head
  const bytes = seal.open(clear, line.toString('latin1', clear.length))
  if (bytes === undefined) return undefined
  const at = bytes.indexOf(NEWLINE) + 1
  const [requestId = '', status, length] = bytes.toString('latin1', 0, at - 1).split(' ')
  const end = length === NONE ? at : at + Number(length)
  const response = {
    status: Number(status),
    fields: bytes.toString('latin1', at, end),
    body: length === NONE ? undefined : bytes.subarray(end),
  }
  return { ...head, requestId, response }
}
