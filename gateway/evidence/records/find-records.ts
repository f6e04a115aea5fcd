import { pairKeyOf } from '../../audit/audit-records.ts'
import { linesIn, NEWLINE, timeOf } from '../../audit/segments/read-segment.ts'
import type { Segment } from '../../audit/segments/segment.ts'
import { type AuditLine, parseLine } from './audit-line.ts'
import { blocksWritten, type OnRead, type Period } from './scan-trail.ts'

export interface RecordFilter {
  readonly request?: string | undefined
  readonly user?: string | undefined
  readonly client?: string | undefined
  readonly path?: string | undefined
  /** Thumbprint in a SIGNER_KEY. */
  readonly thumbprint?: string | undefined
  readonly session?: string | undefined
  readonly status?: number | undefined
  readonly grpcStatus?: number | undefined
}

/** Ignores session and statuses: the record of a request may lack them. */
export function concerns(
  { request, user, client, path, thumbprint }: RecordFilter,
  record: AuditLine,
): boolean {
  return (
    (request === undefined || record.requestId === request || record.gatewayId === request) &&
    (user === undefined || record.userId === user) &&
    (client === undefined || record.clientId === client) &&
    (thumbprint === undefined || record.thumbprint === thumbprint) &&
    (path === undefined || (typeof record.path === 'string' && record.path.includes(path)))
  )
}

export function matches(filter: RecordFilter, record: AuditLine): boolean {
  const { session, status, grpcStatus } = filter
  return (
    concerns(filter, record) &&
    (session === undefined || record.sessionId === session) &&
    (status === undefined || record.statusCode === status) &&
    (grpcStatus === undefined || record.grpcStatus === grpcStatus)
  )
}

/** Bytes that every matching record has, so other lines need not be parsed. */
function needleOf({ request, user, client, path, thumbprint }: RecordFilter): string | undefined {
  if (request !== undefined) return JSON.stringify(request)
  if (user !== undefined) return `"userId":${JSON.stringify(user)}`
  if (client !== undefined) return `"clientId":${JSON.stringify(client)}`
  if (thumbprint !== undefined) return JSON.stringify(thumbprint)
  return path === undefined ? undefined : JSON.stringify(path).slice(1, -1)
}

function responseNeedleOf({ session, status, grpcStatus }: RecordFilter): string | undefined {
  if (session !== undefined) return `"sessionId":${JSON.stringify(session)}`
  if (grpcStatus !== undefined) return `"grpcStatus":${grpcStatus}`
  return status === undefined ? undefined : `"statusCode":${status},`
}

const UUID_V7 = /^([\da-f]{8})-([\da-f]{4})-7[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/i

/** Time of a UUID version 7 (RFC 9562). */
function idTimeMs(id: string): number | undefined {
  const [, high, low] = UUID_V7.exec(id) ?? []
  return high === undefined || low === undefined ? undefined : Number.parseInt(high + low, 16)
}

export interface Search {
  readonly filter: RecordFilter
  readonly period?: Period | undefined
  /** Reads all even for an id that tells its time: a client may have used the id again. */
  readonly everywhere?: boolean
}

interface Found {
  readonly onRecord: (line: Buffer, record: AuditLine) => void
  readonly onRead?: OnRead | undefined
  /** Asked after each block. */
  readonly isEnough?: () => Promise<boolean>
}

/** If the id tells its time, reads only lines near that time; or all, if none matches. */
export async function findRecords(
  segments: readonly Segment[],
  search: Search,
  found: Found,
): Promise<{ readonly count: number; readonly byIdTime: boolean }> {
  const { filter, period, everywhere } = search
  const idMs = filter.request === undefined ? undefined : idTimeMs(filter.request)
  if (idMs !== undefined && period === undefined && everywhere !== true) {
    const around = { fromMs: idMs, toMs: idMs }
    const count = await new Finder({ filter }, found).read(segments, around)
    if (count > 0) return { count, byIdTime: true }
  }
  return { count: await new Finder(search, found).read(segments, period), byIdTime: false }
}

class Finder {
  readonly #filter: RecordFilter
  readonly #found: Found
  readonly #period: Period | undefined
  /** Keys of found requests that have no response yet. */
  readonly #open = new Set<string>()
  #count = 0

  constructor({ filter, period }: Search, found: Found) {
    this.#filter = filter
    this.#period = period
    this.#found = found
  }

  /** @param around where to read; records of other times are found there too */
  async read(segments: readonly Segment[], around: Period | undefined): Promise<number> {
    const { onRead, isEnough } = this.#found
    const needle = this.#needle(around)
    const hasOpen = () => this.#open.size > 0
    for await (const { bytes } of blocksWritten(segments, { period: around, hasOpen, onRead })) {
      for (const line of needle === undefined ? linesIn(bytes) : linesWith(needle, bytes)) this.#look(line)
      if ((await isEnough?.()) === true) break
    }
    return this.#count
  }

  #needle(around: Period | undefined): Buffer | undefined {
    // A bounded search goes on until no request is open. So it must also find requests, which may lack session and status.
    const isEndless = around === undefined || around.toMs === Number.POSITIVE_INFINITY
    const text = needleOf(this.#filter) ?? (isEndless ? responseNeedleOf(this.#filter) : undefined)
    return text === undefined ? undefined : Buffer.from(text)
  }

  #look(line: Buffer): void {
    if (!this.#isOfTime(line)) return
    const record = parseLine(line)
    if (record === undefined || !concerns(this.#filter, record)) return
    this.#follow(record, line)
    if (!matches(this.#filter, record)) return
    this.#count++
    this.#found.onRecord(line, record)
  }

  #follow({ type }: AuditLine, line: Buffer): void {
    const key = pairKeyOf(line.toString('latin1'))
    if (key === undefined) return
    if (type === 'API_REQUEST') this.#open.add(key)
    else if (type === 'API_RESPONSE') this.#open.delete(key)
  }

  #isOfTime(line: Buffer): boolean {
    if (this.#period === undefined) return true
    const ms = timeOf(line) ?? Number.NaN
    return ms >= this.#period.fromMs && ms < this.#period.toMs
  }
}

function* linesWith(needle: Buffer, block: Buffer): Generator<Buffer, void, undefined> {
  for (let at = block.indexOf(needle); at !== -1; ) {
    const newline = block.indexOf(NEWLINE, at)
    const end = newline === -1 ? block.length : newline + 1
    yield block.subarray(block.lastIndexOf(NEWLINE, at) + 1, end)
    at = block.indexOf(needle, end)
  }
}
