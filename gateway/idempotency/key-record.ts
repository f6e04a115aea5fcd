import type { RecordSeal } from './key-secret.ts'

/** A response that is replayed. */
export interface KeptResponse {
  readonly status: number
  /** End-to-end fields; empty when the body is not kept. */
  readonly fields: readonly (readonly [name: string, value: string])[]
  /** Undefined: it was too long to keep. */
  readonly body: Buffer | undefined
}

/**
 * What a line of the journal says of a key. `begun`: its request is under way, and unknown after a crash. `free`: its request was
 * never sent, so it may be sent now.
 */
export interface KeyRecord {
  readonly state: 'begun' | 'unknown' | 'done' | 'free'
  /** A name made by `KeySecret`, as `fingerprint`. */
  readonly caller: string
  readonly fingerprint: string
  /** Of the first request. */
  readonly requestId: string
  /** Epoch milliseconds, on the clock of the run that wrote the file. */
  readonly atMs: number
  readonly keepMs: number
  /** With `done`. */
  readonly response?: KeptResponse
}

const NEWLINE = Buffer.from('\n')
const NOTHING = Buffer.alloc(0)
const LINE = /^([\w-]{22}) ([\w-]+)$/

/** `<name of the key> <sealed record>`: JSON, `\n`, then the bytes of the body. */
export function keyLine(id: string, { response, ...record }: KeyRecord, seal: RecordSeal): string {
  const { body, ...head } = response ?? {}
  const text = JSON.stringify({ ...record, ...head, isKept: body !== undefined })
  return `${id} ${seal.seal(id, Buffer.from(text), NEWLINE, body ?? NOTHING)}\n`
}

/** @returns undefined when the line has no name; without a record when that is damaged */
export function readKeyLine(
  line: string,
  seal: RecordSeal,
): { readonly id: string; readonly record: KeyRecord | undefined } | undefined {
  const [, id, sealed] = LINE.exec(line) ?? []
  if (id === undefined || sealed === undefined) return undefined
  const bytes = seal.open(id, sealed)
  return { id, record: bytes && recordOf(bytes) }
}

function recordOf(bytes: Buffer): KeyRecord {
  const end = bytes.indexOf(NEWLINE)
  const { status, fields, isKept, ...record } = JSON.parse(bytes.toString('utf8', 0, end))
  if (record.state !== 'done') return record
  return { ...record, response: { status, fields, body: isKept ? bytes.subarray(end + 1) : undefined } }
}
