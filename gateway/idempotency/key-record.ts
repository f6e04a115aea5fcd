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

/** What a line of the journal says of a key in clear, so that a start need not open every record. */
export interface KeyHead {
  /** `begun`: its request is under way, and unknown after a crash. `free`: it was never sent, so it may be sent now. */
  readonly state: 'begun' | 'unknown' | 'done' | 'free'
  /** A name made by `KeySecret`, as `fingerprint`. */
  readonly caller: string
  /** Epoch milliseconds, on the clock of the run that wrote the file. */
  readonly atMs: number
  readonly keepMs: number
}

export interface KeyRecord extends KeyHead {
  readonly fingerprint: string
  /** Of the first request. */
  readonly requestId: string
  /** With `done`. */
  readonly response?: KeptResponse
}

const NEWLINE = Buffer.from('\n')
const NOTHING = Buffer.alloc(0)
const HEAD = /^([\w-]{22}) (?:([\w-]{22}) (begun|unknown|done|free) (\d{1,16}) (\d{1,16}) ([\da-f]{1,8}) )?/
const HEAD_MAX_CHARS = 104

/** `<name of the key> <caller> <state> <atMs> <keepMs> <CRC-32> <sealed>`; sealed is JSON, `\n`, then the bytes of the body. */
export function keyLine(id: string, { response, ...record }: KeyRecord, seal: RecordSeal): string {
  const { state, caller, atMs, keepMs, ...rest } = record
  const { body, ...head } = response ?? {}
  const said = `${id} ${caller} ${state} ${Math.round(atMs)} ${keepMs}`
  const clear = `${said} ${crc32(said).toString(16)} `
  const text = JSON.stringify({ ...rest, ...head, isKept: body !== undefined })
  return `${clear}${seal.seal(clear, Buffer.from(text), NEWLINE, body ?? NOTHING)}\n`
}

/** @returns undefined when the line has no name; without a head when that is damaged */
export function readKeyHead(
  line: Buffer,
): { readonly id: string; readonly head: KeyHead | undefined; readonly chars: number } | undefined {
  const [clear, id, caller, state, atMs, keepMs, crc] =
    HEAD.exec(line.toString('latin1', 0, HEAD_MAX_CHARS)) ?? []
  if (clear === undefined || id === undefined) return undefined
  // A wrong time would make every key of its file expire.
  const isSound = crc !== undefined && crc32(clear.slice(0, -crc.length - 2)) === Number.parseInt(crc, 16)
  const head = isSound ? { state, caller, atMs: Number(atMs), keepMs: Number(keepMs) } : undefined
  return { id, head: head as KeyHead | undefined, chars: clear.length }
}

/** @returns undefined when the line is damaged or that of another key */
export function readKeyLine(line: Buffer, id: string, seal: RecordSeal): KeyRecord | undefined {
  const read = readKeyHead(line)
  if (read?.head === undefined || read.id !== id) return undefined
  const clear = line.toString('latin1', 0, read.chars)
  const bytes = seal.open(clear, line.toString('latin1', read.chars))
  if (bytes === undefined) return undefined
  const end = bytes.indexOf(NEWLINE)
  const { status, fields, isKept, ...rest } = JSON.parse(bytes.toString('utf8', 0, end))
  const record = { ...read.head, ...rest }
  if (record.state !== 'done') return record
  return { ...record, response: { status, fields, body: isKept ? bytes.subarray(end + 1) : undefined } }
}
