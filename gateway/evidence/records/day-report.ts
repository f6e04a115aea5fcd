import { blocksOf, linesIn, timeOf } from '../../audit/segments/read-segment.ts'
import type { Segment } from '../../audit/segments/segment.ts'
import { plural } from '../../terminal/printable.ts'
import { type AuditLine, numberOf, parseLine, textOf, timestampMs, writtenMs } from './audit-line.ts'
import { blocksWritten, type OnRead, type Period } from './scan-trail.ts'

/** Times are in ISO 8601. */
interface Span {
  readonly from: string
  /** Undefined: it lasts. */
  readonly until?: string | undefined
  readonly reason: string
}

export type DayReport = ReturnType<DayCount['report']>

export const DAY_MS = 86_400_000
/** Longer waits for a seal need a person. */
const SEALED_WITHIN_MS = 60_000

/** @param dayMs beginning of the day in UTC @param log directory of the seals, if the trail has any */
export async function reportDay(
  segments: readonly Segment[],
  dayMs: number,
  onRead?: OnRead,
  log?: string,
): Promise<DayReport> {
  const period = { fromMs: dayMs, toMs: dayMs + DAY_MS }
  const count = new DayCount(period, log)
  const hasOpen = () => count.open > 0
  for await (const { bytes } of blocksWritten(segments, { period, hasOpen, onRead })) {
    for (const line of linesIn(bytes)) count.read(line)
  }
  const report = count.report()
  if (count.hasRecord) return report
  const begin = await beginOf(segments)
  const what = begin === undefined ? 'the trail has no record at all' : `the trail begins at ${begin}`
  return { ...report, attention: [`there is no record of ${report.day}: ${what}`, ...report.attention] }
}

async function beginOf(segments: readonly Segment[]): Promise<string | undefined> {
  for (const segment of segments) {
    for await (const block of blocksOf(segment)) {
      for (const line of linesIn(block)) {
        const ms = timeOf(line)
        if (ms !== undefined) return new Date(ms).toISOString()
      }
    }
  }
  return undefined
}

class DayCount {
  readonly #period: Period
  readonly #log: string | undefined
  readonly #found = {
    requests: 0,
    responses: 0,
    unpaired: 0,
    /** Responses that a start wrote after a crash. */
    recovered: 0,
    byStatus: {} as Record<number, number>,
    byGrpcStatus: {} as Record<number, number>,
    starts: 0,
    /** From AUDIT_STOP to AUDIT_START, except rotations; or from the last line to an AUDIT_START without AUDIT_STOP. */
    gaps: [] as Span[],
    degraded: [] as Span[],
    configChanges: [] as { at: string; file: string }[],
    seals: 0,
    /** Undefined without seals. */
    longestUnsealedMs: undefined as number | undefined,
    pruned: [] as string[],
  }
  #isSealed: boolean
  readonly #degraded = new Map<string, Span>()
  readonly #ended: Span[] = []
  readonly #restored = new Set<string>()
  readonly #attention: string[] = []
  #noRecords = 0
  hasRecord = false
  #stop: AuditLine | undefined
  /** Time of the last line that tells one. */
  #lastMs: number | undefined
  #unsealedSinceMs: number | undefined
  #longestUnsealedMs: number | undefined

  constructor(period: Period, log: string | undefined) {
    this.#period = period
    this.#log = log
    this.#isSealed = log !== undefined
  }

  get open(): number {
    return Math.max(0, this.#found.requests - this.#found.responses)
  }

  read(line: Buffer): void {
    const record = parseLine(line)
    if (record === undefined) {
      if (this.#has(this.#lastMs)) this.#noRecords++
      return
    }
    const { type } = record
    if (type === 'API_REQUEST' || type === 'API_RESPONSE') this.#readExchange(record)
    else this.#readEvent(record)
    const ms = writtenMs(line)
    this.hasRecord ||= this.#has(ms) || this.#has(timestampMs(record))
    if (ms !== undefined) this.#lastMs = ms
    // The record of a request has no other time than its start.
    else if (type === 'API_REQUEST') this.#lastMs = laterOf(this.#lastMs, timestampMs(record))
    if (type !== 'AUDIT_SEAL') this.#unsealedSinceMs ??= ms
  }

  report() {
    const degraded = [...this.#ended, ...this.#degraded.values()].filter((span) => this.#overlaps(span))
    const unpaired = this.open
    const attention = [...this.#attention]
    if (this.#noRecords > 0)
      attention.push(plural(this.#noRecords, 'line that is not a record', 'lines that are not records'))
    if (unpaired > 0) attention.push(`${plural(unpaired, 'request')} without a response`)
    if (this.#found.recovered > 0)
      attention.push(`${plural(this.#found.recovered, 'request was', 'requests were')} cut off by a crash`)
    for (const { from, reason } of degraded) attention.push(`degraded from ${from}: ${reason}`)
    // The last lines may still wait, because sealing may have stopped.
    const longest = this.#longestWaitMs(this.#lastMs)
    if (this.#isSealed && longest !== undefined && longest > SEALED_WITHIN_MS) {
      const isOff = this.#log !== undefined && this.#found.seals === 0
      const remedy = isOff ? `; if seals are off on purpose, move ${this.#log} away and keep it` : ''
      attention.push(`lines waited ${Math.round(longest / 1000)} s for their seal${remedy}`)
    }
    return {
      day: new Date(this.#period.fromMs).toISOString().slice(0, 10),
      ...this.#found,
      unpaired,
      degraded,
      longestUnsealedMs: longest,
      attention,
    }
  }

  #has(ms: number | undefined): boolean {
    return ms !== undefined && ms >= this.#period.fromMs && ms < this.#period.toMs
  }

  #overlaps({ from, until }: Span): boolean {
    const endMs = until === undefined ? Number.POSITIVE_INFINITY : Date.parse(until)
    return Date.parse(from) < this.#period.toMs && endMs >= this.#period.fromMs
  }

  #readExchange(record: AuditLine): void {
    if (!this.#has(timestampMs(record))) return
    const { byStatus, byGrpcStatus } = this.#found
    const countIn = (counts: Record<number, number>, status: number) => {
      counts[status] = (counts[status] ?? 0) + 1
    }
    if (record.type === 'API_REQUEST') this.#found.requests++
    else this.#found.responses++
    if (record.recovered === true) this.#found.recovered++
    else if (record.type === 'API_RESPONSE') {
      countIn(byStatus, numberOf(record.statusCode))
      if (record.grpcStatus !== undefined) countIn(byGrpcStatus, numberOf(record.grpcStatus))
    }
  }

  #readEvent(record: AuditLine): void {
    const at = textOf(record.timestamp)
    const isToday = this.#has(timestampMs(record))
    const { type, since } = record
    const store = textOf(record.store)
    if (type === 'AUDIT_STOP') this.#stop = record
    else if (type === 'AUDIT_START') this.#readStart(record, isToday)
    else if (type === 'AUDIT_SEAL') this.#readSeal(record, isToday)
    else if (type === 'STORE_DEGRADED') this.#degraded.getOrInsert(store, degradedIn(record))
    else if (type === 'STORE_RESTORED')
      this.#restore(store, at, since === undefined ? undefined : degradedIn(record))
    else if (!isToday) return
    else if (type === 'CONFIG_CHANGE') this.#found.configChanges.push({ at, file: textOf(record.file) })
    else if (type === 'AUDIT_PRUNE') this.#found.pruned.push(textOf(record.segment))
    else if (type === 'AUDIT_FOREIGN')
      this.#attention.push(`AUDIT_FOREIGN at ${at}: others have written to the trail`)
    else if (type === 'AUDIT_SEAL_GAP')
      this.#attention.push(`AUDIT_SEAL_GAP at ${at}: lines that were sealed are no longer there`)
  }

  #readStart(record: AuditLine, isToday: boolean): void {
    const at = textOf(record.timestamp)
    const stop = this.#stop
    this.#stop = undefined
    // The process goes on, after an outage or in a new file, so its stores may still be degraded.
    const goesOn = (record.refused ?? record.continues) !== undefined && record.recovered === undefined
    if (!goesOn) for (const store of [...this.#degraded.keys()]) this.#restore(store, at)
    if (isToday) {
      this.#found.starts++
      for (const member of ['cutBytes', 'damagedLines', 'unresolved', 'refused'] as const) {
        if (numberOf(record[member]) > 0)
          this.#attention.push(`AUDIT_START at ${at}: ${member} ${textOf(record[member])}`)
      }
      if (record.locked === false) this.#attention.push(`AUDIT_START at ${at}: the trail was not locked`)
      if (record.removed === true)
        this.#attention.push(`AUDIT_START at ${at}: the file before was removed while it was written`)
    }
    const isRotation = stop === undefined ? goesOn && record.removed !== true : stop.reason === 'rotated'
    const fromMs = stop === undefined ? this.#lastMs : timestampMs(stop)
    if (isRotation || fromMs === undefined || Number.isNaN(fromMs)) return
    const reason = textOf(stop?.reason ?? (goesOn ? 'removed' : 'a crash'))
    const gap = { from: new Date(fromMs).toISOString(), until: at, reason }
    if (!this.#overlaps(gap)) return
    this.#found.gaps.push(gap)
    if (reason === 'a crash') this.#attention.push(`a start without a stop before it, at ${at}: a crash`)
    else if (reason.startsWith('write failed'))
      this.#attention.push(`the trail could not be written from ${gap.from}: ${reason}`)
  }

  #readSeal(record: AuditLine, isToday: boolean): void {
    this.#longestUnsealedMs = this.#longestWaitMs(timestampMs(record))
    this.#unsealedSinceMs = undefined
    this.#isSealed = true
    if (isToday) this.#found.seals++
  }

  #longestWaitMs(untilMs: number | undefined): number | undefined {
    const [sinceMs, longestMs] = [this.#unsealedSinceMs, this.#longestUnsealedMs]
    if (sinceMs === undefined || untilMs === undefined) return longestMs
    const isOfDay = sinceMs < this.#period.toMs && untilMs >= this.#period.fromMs
    return isOfDay ? Math.max(longestMs ?? 0, untilMs - sinceMs) : longestMs
  }

  /** @param before the degradation that STORE_RESTORED tells of, used if STORE_DEGRADED was not read */
  #restore(store: string, at: string, before?: Span): void {
    const span = this.#degraded.get(store) ?? (this.#restored.has(store) ? undefined : before)
    this.#degraded.delete(store)
    this.#restored.add(store)
    if (span !== undefined) this.#ended.push({ ...span, until: at })
  }
}

function degradedIn({ store, cause, since, timestamp }: AuditLine): Span {
  return {
    from: textOf(since ?? timestamp),
    reason: `${textOf(store)}: ${textOf(cause ?? 'cannot be written')}`,
  }
}

function laterOf(ms: number | undefined, otherMs: number): number | undefined {
  return Number.isNaN(otherMs) ? ms : Math.max(ms ?? otherMs, otherMs)
}
