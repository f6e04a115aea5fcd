import { hash } from 'node:crypto'
import { LEAF_MAX_BYTES } from './seals/hashes.ts'

interface ConfigChangeFacts {
  readonly timestamp: string
  readonly file: string
  readonly writer?: FileWriter | undefined
  /** Entries in readable form, without secrets. */
  readonly before: readonly object[]
  readonly after: readonly object[]
}

/** Owner of the file, and when it was last changed. Others may be able to write it too. */
export interface FileWriter {
  readonly owner: { readonly uid: number; readonly name?: string | undefined }
  readonly modified: string
}

type Side = 'before' | 'after'

const ROOM_FOR_PARTS = ',"part":1000000,"parts":1000000'.length

/**
 * CONFIG_CHANGE: the configuration before and after, in several lines with `part` and `parts` if one would be too long.
 * A long entry is split into keys, a long list into halves. A long single value is replaced by its length and SHA-256.
 */
export function configChangeRecords(facts: ConfigChangeFacts): readonly string[] {
  const { timestamp, file, writer, before, after } = facts
  const head = { type: 'CONFIG_CHANGE', timestamp, file, ...writer }
  const whole = `${JSON.stringify({ ...head, before, after })}\n`
  if (Buffer.byteLength(whole) <= LEAF_MAX_BYTES) return [whole]
  const start = JSON.stringify(head).slice(0, -1)
  const roomBytes = LEAF_MAX_BYTES - Buffer.byteLength(`${start},"before":[],"after":[]}\n`) - ROOM_FOR_PARTS
  const parts = packed(
    [...shown('before', before, roomBytes), ...shown('after', after, roomBytes)],
    roomBytes,
  )
  return parts.map((rows, index) => {
    const listOf = (side: Side) => rows.flatMap((row) => (row.side === side ? [row.json] : [])).join(',')
    const number = `,"part":${index + 1},"parts":${parts.length}`
    return `${start}${number},"before":[${listOf('before')}],"after":[${listOf('after')}]}\n`
  })
}

type ShownRow = { readonly side: Side; readonly json: string; readonly bytes: number }

function shown(side: Side, rows: readonly object[], roomBytes: number): ShownRow[] {
  return rows.flatMap((row): ShownRow[] => {
    const json = JSON.stringify(row)
    const bytes = Buffer.byteLength(json) + 1
    return bytes <= roomBytes ? [{ side, json, bytes }] : shown(side, divided(row, json), roomBytes)
  })
}

function divided(row: object, json: string): object[] {
  const members = Object.entries(row)
  if (members.length > 1) return members.map(([key, value]) => ({ [key]: value }))
  const [[key, value] = ['', undefined]] = members
  if (Array.isArray(value) && value.length > 1) {
    const half = value.length >> 1
    return [{ [key]: value.slice(0, half) }, { [key]: value.slice(half) }]
  }
  return [{ omitted: { bytes: Buffer.byteLength(json), sha256: hash('sha256', json) } }]
}

function packed(rows: readonly ShownRow[], roomBytes: number): readonly ShownRow[][] {
  const parts: ShownRow[][] = []
  let leftBytes = 0
  for (const row of rows) {
    if (row.bytes > leftBytes) {
      parts.push([])
      leftBytes = roomBytes
    }
    parts.at(-1)?.push(row)
    leftBytes -= row.bytes
  }
  return parts
}
