import { crc32 } from 'node:zlib'
import type { RecordSeal } from './key-secret.ts'

/** A response that is replayed. */
export interface KeptResponse {
  readonly status: number
  /** End-to-end fields; empty when the body is not kept. */
  readonly fields: readonly (readonly [name: string, value: string])[]
  /** Undefined: it was too long to keep. */
  readonly body: Buffer | undefined
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
  readonly response?: KeptResponse
}

const NEWLINE = Buffer.from('\n')
const NOTHING = Buffer.alloc(0)
const HEAD =
  /^([\w-]{22}) (?:([\w-]{22}) (begun|unknown|done|free) (\d{1,16}) (\d{1,16}) ([\w-]{22}|-) ([\w.:/+=@-]{1,128}) ([\da-f]{1,8}) )?/
const HEAD_MAX_CHARS = 256
/** Not known, or sealed. */
const NONE = '-'

/**
 * `<name of the key> <caller> <state> <atMs> <keepMs> <fingerprint> <request id> <CRC-32> <sealed>`. With `done` the request id
 * is sealed too: JSON, `\n`, then the bytes of the body. The others are not sealed, which takes half the time: callers are names, and
 * the audit trail has ids of requests in clear.
 */
export function keyLine(id: string, record: KeyRecord, seal: RecordSeal): string {
  const { state, caller, atMs, keepMs, fingerprint, requestId, response } = record
  const inClear = (response === undefined && requestId) || NONE
  const said = `${id} ${caller} ${state} ${Math.round(atMs)} ${keepMs} ${fingerprint || NONE} ${inClear}`
  const clear = `${said} ${crc32(said).toString(16)} `
  if (response === undefined) return `${clear}\n`
  const { body, ...head } = response
  const text = JSON.stringify({ requestId, ...head, isKept: body !== undefined })
  return `${clear}${seal.seal(clear, Buffer.from(text), NEWLINE, body ?? NOTHING)}\n`
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
  const end = bytes.indexOf(NEWLINE)
  const { requestId, status, fields, isKept } = JSON.parse(bytes.toString('utf8', 0, end))
  return {
    ...head,
    requestId,
    response: { status, fields, body: isKept ? bytes.subarray(end + 1) : undefined },
  }
}
