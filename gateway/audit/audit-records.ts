import type { RefusalCode } from '../refusals.ts'
import { signatureAt } from './signature-records.ts'

/** The audit trail is NDJSON in UTF-8. Fields keep one order, because recovery compares bytes. */

/** Facts that both records of a request have. Only the strings up to `userAgent` are escaped. */
export interface RequestFacts {
  readonly requestId: string
  /** Start of the request, ISO 8601. */
  readonly timestamp: string
  readonly method: string
  /** As routed, without the query. */
  readonly path: string
  readonly userId: string | undefined
  readonly clientId: string | undefined
  readonly ip: string
  /** Empty when there was none. */
  readonly userAgent: string
  /** 22 characters that stand for the session id of the token (see `sessionNames`). */
  readonly sessionId?: string | undefined
  /** `x-fapi-interaction-id`, a UUID. */
  readonly interactionId?: string | undefined
  /** 32 hexadecimal digits. */
  readonly traceId?: string | undefined
  /** The gateway's own id, a UUID, when `requestId` comes from the client, who may repeat it. */
  readonly gatewayId: string | undefined
}

interface ResponseEnd {
  readonly refusalCode?: RefusalCode | undefined
  /** The client that a refused credential names but does not prove. */
  readonly claimedClient?: string | undefined
  readonly decisionId?: string | undefined
  readonly replayOf?: string | undefined
}

/** Facts of AUDIT_START, which is written at a start, after an outage, and in a new file. */
export interface StartFacts {
  readonly timestamp: string
  readonly version?: string | undefined
  readonly pid: number
  /** Requests open at this line. At 0, recovery reads no further back. */
  readonly open: number
  readonly cutBytes?: number | undefined
  readonly recovered?: number | undefined
  readonly damagedLines?: number | undefined
  /** Requests that an earlier line counts as open, but that no file has. */
  readonly unresolved?: number | undefined
  /** `false` when no lock could be taken: a second gateway would go unnoticed. */
  readonly locked?: boolean | undefined
  /** Requests refused since the previous AUDIT_STOP because they could not be recorded. */
  readonly refused?: number | undefined
  readonly continues?: string | undefined
  /** `true`: the previous file was removed. Up to a second of records is lost. */
  readonly removed?: true | undefined
  readonly clockOffsetMs?: number | undefined
  readonly clockSource?: string | undefined
  /** The clock was set back by at least this much during the previous file. */
  readonly clockSetBackMs?: number | undefined
}

type StopFacts = Pick<StartFacts, 'timestamp' | 'pid' | 'open'> & { readonly reason: string }

interface PruneFacts {
  readonly timestamp: string
  readonly segment: string
  /** First and last leaf of the segment in the log (C2SP tlog-tiles), if sealed. */
  readonly first?: number | undefined
  readonly last?: number | undefined
  /** Times of the first record and of the closing, ISO 8601. */
  readonly from?: string | undefined
  readonly until: string
}

interface StoreFacts {
  readonly type: 'STORE_DEGRADED' | 'STORE_RESTORED'
  readonly timestamp: string
  readonly store: string
  readonly cause?: string | undefined
  /** Start of the outage; undefined in its first record. */
  readonly since?: string | undefined
}

export const RECORD_HEAD = '{"type":"'
export const START_HEAD = '{"type":"AUDIT_START",'
export const STOP_HEAD = '{"type":"AUDIT_STOP",'
/** A longer line is not parsed: parsing brackets takes fifty times their length in memory. */
export const RECORD_MAX_BYTES = 1024 * 1024
/** Raise it when the recovery of an older gateway could misread new lines. */
export const TRAIL_FORMAT = 4
const PATH_MAX_CHARS = 4096
const USER_AGENT_MAX_CHARS = 512
const CUT_MARK = '…'

/** Characters that JSON must escape (RFC 8259 section 7), and surrogates, since a lone one has no UTF-8 form. */
const NEEDS_ESCAPE = /[^ !#-[\]-\ud7ff\ue000-\uffff]/

/** Optional members, in their order. The first four have fixed lengths, so they are found from the end. */
const SESSION_ID_KEY = ',"sessionId":"'
const INTERACTION_ID_KEY = ',"interactionId":"'
const TRACE_ID_KEY = ',"traceId":"'
const GATEWAY_ID_KEY = ',"gatewayId":"'
const GRPC_STATUS_KEY = ',"grpcStatus":'
const DECISION_ID_KEY = ',"decisionId":"'
const REPLAY_OF_KEY = ',"replayOf":"'
const UUID_CHARS = 36
const SESSION_ID_CHARS = SESSION_ID_KEY.length + 22 + 1
const INTERACTION_ID_CHARS = INTERACTION_ID_KEY.length + UUID_CHARS + 1
const TRACE_ID_CHARS = TRACE_ID_KEY.length + 32 + 1
const GATEWAY_ID_CHARS = GATEWAY_ID_KEY.length + UUID_CHARS + 1

const START_FIELDS = (
  'type timestamp version pid open cutBytes recovered damagedLines unresolved locked refused continues removed ' +
  'clockOffsetMs clockSource clockSetBackMs format'
).split(' ')

export const REQUEST_HEAD = '{"type":"API_REQUEST"'
export const RESPONSE_HEAD = '{"type":"API_RESPONSE"'
const REQUEST_ID_KEY = ',"requestId":'
const AFTER_TIMESTAMP = ',"method":'
/** Index of the I of `API_`. No other type has an I there. */
const EXCHANGE_AT = REQUEST_HEAD.indexOf('I_')
const EXCHANGE = 'I'.charCodeAt(0)
const SIDE_AT = REQUEST_HEAD.indexOf('QUEST')
const REQUEST = 'Q'.charCodeAt(0)

function quoted(text: string): string {
  return NEEDS_ESCAPE.test(text) ? JSON.stringify(text) : `"${text}"`
}

/** Cuts to at most `maxChars` UTF-16 units. Never halves a surrogate pair. */
export function bounded(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text
  const last = text.charCodeAt(maxChars - 2)
  const isHighSurrogate = last >= 0xd800 && last <= 0xdbff
  return text.slice(0, isHighSurrogate ? maxChars - 2 : maxChars - 1) + CUT_MARK
}

/** `{"type":"API_REQUEST",requestId,timestamp,method,path[,userId][,clientId],ip,userAgent[,optional members]}` */
export function requestRecord(facts: RequestFacts): string {
  return (
    `${REQUEST_HEAD},"requestId":${quoted(facts.requestId)},"timestamp":${quoted(facts.timestamp)}` +
    `,"method":${quoted(facts.method)},"path":${quoted(bounded(facts.path, PATH_MAX_CHARS))}` +
    (facts.userId === undefined ? '' : `,"userId":${quoted(facts.userId)}`) +
    (facts.clientId === undefined ? '' : `,"clientId":${quoted(facts.clientId)}`) +
    `,"ip":${quoted(facts.ip)},"userAgent":${quoted(bounded(facts.userAgent, USER_AGENT_MAX_CHARS))}` +
    (facts.sessionId === undefined ? '' : `${SESSION_ID_KEY}${facts.sessionId}"`) +
    (facts.interactionId === undefined ? '' : `${INTERACTION_ID_KEY}${facts.interactionId}"`) +
    (facts.traceId === undefined ? '' : `${TRACE_ID_KEY}${facts.traceId}"`) +
    (facts.gatewayId === undefined ? '}\n' : `${GATEWAY_ID_KEY}${facts.gatewayId}"}\n`)
  )
}

/**
 * Makes API_RESPONSE. `statusCode`, `duration` and members of a refusal come before the optional members; `grpcStatus`,
 * `decisionId` and `replayOf` come last.
 * @param grpcStatus has at most two digits
 * @param ends `decisionId`: a decider's name for its decision; `replayOf`: id of the first request with this response
 */
export function responseTo(
  requestLine: string,
  statusCode: number,
  durationMs: number,
  grpcStatus?: number,
  { refusalCode, claimedClient, decisionId, replayOf }: ResponseEnd = {},
): string {
  const duration =
    durationMs >= 0 && durationMs < Number.POSITIVE_INFINITY ? Math.round(durationMs * 1000) / 1000 : 0
  const refused =
    (claimedClient === undefined ? '' : `,"claimedClientId":${quoted(claimedClient)}`) +
    (refusalCode === 'too_many_failures' ? ',"throttled":true' : '')
  const line = responseLine(requestLine, `,"statusCode":${statusCode | 0},"duration":${duration}${refused}`)
  if (grpcStatus === undefined && decisionId === undefined && replayOf === undefined) return line
  return (
    line.slice(0, endOf(line)) +
    (grpcStatus === undefined ? '' : GRPC_STATUS_KEY + grpcStatus) +
    (decisionId === undefined ? '' : DECISION_ID_KEY + quoted(decisionId).slice(1)) +
    (replayOf === undefined ? '}\n' : `${REPLAY_OF_KEY}${quoted(replayOf).slice(1)}}\n`)
  )
}

/** API_RESPONSE of a request whose end is unknown: statusCode and duration mean nothing. */
export function recoveredRecord(requestLine: string): string {
  const unsigned = `${requestLine.slice(0, endOf(requestLine))}}\n`
  return responseLine(unsigned, ',"statusCode":0,"duration":0,"recovered":true')
}

function responseLine(requestLine: string, members: string): string {
  const at = optionalAt(requestLine)
  return `${RESPONSE_HEAD}${requestLine.slice(REQUEST_HEAD.length, at)}${members}${requestLine.slice(at)}`
}

/** The key that both records of a request have: the gateway's own id, else request id and timestamp. */
export function pairKeyOf(line: string): string | undefined {
  const idAt = gatewayIdAt(line)
  if (idAt !== -1) return line.slice(idAt, idAt + GATEWAY_ID_CHARS)
  const start = line.indexOf(REQUEST_ID_KEY)
  const end = line.indexOf(AFTER_TIMESTAMP, start)
  return start === -1 || end === -1 ? undefined : line.slice(start, end)
}

/** Index of `,"gatewayId"`, or -1. No value can hold this text, because quotes in values are escaped. */
function gatewayIdAt(line: string): number {
  const at = withoutLast(line, endOf(line)) - GATEWAY_ID_CHARS
  return line.startsWith(GATEWAY_ID_KEY, at) ? at : -1
}

function optionalAt(line: string): number {
  let at = endOf(line)
  if (line.startsWith(GATEWAY_ID_KEY, at - GATEWAY_ID_CHARS)) at -= GATEWAY_ID_CHARS
  if (line.startsWith(TRACE_ID_KEY, at - TRACE_ID_CHARS)) at -= TRACE_ID_CHARS
  if (line.startsWith(INTERACTION_ID_KEY, at - INTERACTION_ID_CHARS)) at -= INTERACTION_ID_CHARS
  if (line.startsWith(SESSION_ID_KEY, at - SESSION_ID_CHARS)) at -= SESSION_ID_CHARS
  return at
}

/** Index at which `grpcStatus`, `decisionId` or `replayOf` begins, whichever is first; else `whole`. */
function withoutLast(line: string, whole: number): number {
  const replayOf = line.lastIndexOf(REPLAY_OF_KEY)
  const decisionId = line.lastIndexOf(DECISION_ID_KEY)
  const end = decisionId !== -1 ? decisionId : replayOf !== -1 ? replayOf : whole
  for (let at = end - GRPC_STATUS_KEY.length - 1; at >= end - GRPC_STATUS_KEY.length - 2; at--)
    if (line.startsWith(GRPC_STATUS_KEY, at)) return at
  return end
}

/** Index behind the last member that is not `signature`. */
function endOf(line: string): number {
  return signatureAt(line, line.length - (line.endsWith('\n') ? 2 : 1))
}

export function startRecord(facts: StartFacts): string {
  return `${JSON.stringify({ type: 'AUDIT_START', ...facts, format: TRAIL_FORMAT }, START_FIELDS)}\n`
}

export function stopRecord({ timestamp, pid, open, reason }: StopFacts): string {
  return `${JSON.stringify({ type: 'AUDIT_STOP', timestamp, pid, open, reason, format: TRAIL_FORMAT })}\n`
}

export function pruneRecord({ timestamp, segment, first, last, from, until }: PruneFacts): string {
  return `${JSON.stringify({ type: 'AUDIT_PRUNE', timestamp, segment, first, last, from, until })}\n`
}

export function storeRecord({ type, timestamp, store, cause, since }: StoreFacts): string {
  return `${JSON.stringify({ type, timestamp, store, cause, since })}\n`
}

/** Change of the number of open requests. */
export function openChangeOf(line: string): number {
  // Comparing single characters is several times faster than comparing heads.
  if (line.charCodeAt(EXCHANGE_AT) !== EXCHANGE) return 0
  return line.charCodeAt(SIDE_AT) === REQUEST ? 1 : -1
}

export function typeOf(record: string): string {
  const change = openChangeOf(record)
  if (change === 0) return record.slice(RECORD_HEAD.length, record.indexOf('"', RECORD_HEAD.length))
  return change === 1 ? 'API_REQUEST' : 'API_RESPONSE'
}

export type RecordCounts = ReadonlyMap<string, number>

/** Reading a character makes V8 flatten a line, so joining lines later is cheap. */
export function countsOf(lines: readonly string[]): RecordCounts {
  const counts = new Map<string, number>()
  let requests = 0
  let responses = 0
  for (const line of lines) {
    const change = openChangeOf(line)
    if (change === 1) requests++
    else if (change === -1) responses++
    else counts.set(typeOf(line), (counts.get(typeOf(line)) ?? 0) + 1)
  }
  if (requests > 0) counts.set('API_REQUEST', requests)
  if (responses > 0) counts.set('API_RESPONSE', responses)
  return counts
}

export function openChangeIn(counts: RecordCounts): number {
  return (counts.get('API_REQUEST') ?? 0) - (counts.get('API_RESPONSE') ?? 0)
}
