import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { gunzipSync } from 'node:zlib'

/** A received span, with numbers in place of texts of 64-bit numbers. */
export interface ReceivedSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId: string | undefined
  readonly traceState: string | undefined
  readonly flags: number
  readonly name: string
  readonly kind: 'server' | 'client'
  readonly startNs: bigint
  readonly endNs: bigint
  readonly attributes: Readonly<Record<string, string | number>>
  readonly isError: boolean
  readonly resource: Readonly<Record<string, string | number>>
}

type Respond = (res: ServerResponse) => void

/** Receives OTLP over HTTP, and checks it by the specification and `trace.proto`. */
export interface OtlpReceiver {
  readonly endpoint: string
  /** Spans of accepted posts. */
  readonly spans: ReceivedSpan[]
  readonly headers: IncomingHttpHeaders[]
  /** Violations of the specification. */
  readonly faults: string[]
  /** Responses to the next posts, in order; then 200. */
  readonly next: Respond[]
  close(): void
}

const ACCEPT: Respond = (res) => res.writeHead(200, { 'content-type': 'application/json' }).end('{}')
const KINDS = new Map([
  [2, 'server'],
  [3, 'client'],
] as const)
/** The years 2020 and 2100. A time outside of them has a wrong unit. */
const EARLIEST_NS = 1_577_836_800_000_000_000n
const LATEST_NS = 4_102_444_800_000_000_000n

export async function startReceiver(port = 0): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = []
  const headers: IncomingHttpHeaders[] = []
  const faults: string[] = []
  const next: Respond[] = []
  const server = createServer((req, res) => {
    headers.push(req.headers)
    void receive(req).then(
      (received) => {
        const respond = next.shift()
        if (respond === undefined) spans.push(...received)
        ;(respond ?? ACCEPT)(res)
      },
      (fault: Error) => {
        faults.push(fault.message)
        res.writeHead(400).end()
      },
    )
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/traces`,
    spans,
    headers,
    faults,
    next,
    close: () => {
      server.close()
      server.closeAllConnections()
    },
  }
}

async function receive(req: IncomingMessage): Promise<ReceivedSpan[]> {
  assert.equal(`${req.method} ${req.url}`, 'POST /v1/traces')
  assert.equal(req.headers['content-type'], 'application/json')
  const bytes = await buffer(req)
  const text = req.headers['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes
  return readRequest(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(text)))
}

type Json = Readonly<Record<string, unknown>>

function readRequest(request: Json): ReceivedSpan[] {
  only(request, ['resourceSpans'])
  return list(request.resourceSpans).flatMap((resourceSpans) => {
    only(resourceSpans, ['resource', 'scopeSpans', 'schemaUrl'])
    const resource = attributesOf(only(resourceSpans.resource as Json, ['attributes']).attributes)
    assert.equal(typeof resource['service.name'], 'string')
    return list(resourceSpans.scopeSpans).flatMap((scopeSpans) => {
      only(scopeSpans, ['scope', 'spans', 'schemaUrl'])
      assert.match(String(scopeSpans.schemaUrl), /^https:\/\/opentelemetry\.io\/schemas\/1\.\d+\.0$/)
      const scope = only(scopeSpans.scope as Json, ['name', 'version'])
      assert.deepEqual([scope.name, typeof scope.version], ['countersign', 'string'])
      return list(scopeSpans.spans).map((span) => readSpan(span, resource))
    })
  })
}

function readSpan(span: Json, resource: ReceivedSpan['resource']): ReceivedSpan {
  only(span, [
    ...['traceId', 'spanId', 'parentSpanId', 'traceState', 'flags', 'name', 'kind'],
    ...['startTimeUnixNano', 'endTimeUnixNano', 'attributes', 'status'],
  ])
  assert.match(String(span.traceId), /^(?!0+$)[0-9a-f]{32}$/)
  assert.match(String(span.spanId), /^(?!0+$)[0-9a-f]{16}$/)
  if (span.parentSpanId !== undefined) assert.match(String(span.parentSpanId), /^(?!0+$)[0-9a-f]{16}$/)
  assert.ok(typeof span.name === 'string' && span.name !== '')
  assert.ok(Number.isInteger(span.flags))
  const kind = KINDS.get(span.kind as 2)
  assert.ok(kind !== undefined, `kind ${span.kind}`)
  const [startNs, endNs] = [span.startTimeUnixNano, span.endTimeUnixNano].map(nanosecondsOf) as [
    bigint,
    bigint,
  ]
  assert.ok(startNs <= endNs)
  const status = only((span.status ?? {}) as Json, ['code', 'message'])
  assert.ok(status.code === undefined || status.code === 2, `status ${status.code}`)
  const attributes = attributesOf(span.attributes)
  assert.equal(status.code === 2, attributes['error.type'] !== undefined)
  return {
    traceId: span.traceId as string,
    spanId: span.spanId as string,
    parentSpanId: span.parentSpanId as string | undefined,
    traceState: span.traceState as string | undefined,
    flags: span.flags as number,
    name: span.name,
    kind,
    startNs,
    endNs,
    attributes,
    isError: status.code === 2,
    resource,
  }
}

/** Fixed64 as text (ProtoJSON). */
function nanosecondsOf(value: unknown): bigint {
  assert.match(String(value), /^\d{19}$/)
  assert.equal(typeof value, 'string')
  const ns = BigInt(value as string)
  assert.ok(ns > EARLIEST_NS && ns < LATEST_NS, String(ns))
  return ns
}

function attributesOf(pairs: unknown): Record<string, string | number> {
  const found: Record<string, string | number> = {}
  for (const pair of list(pairs)) {
    const { key, value } = only(pair, ['key', 'value'])
    assert.ok(typeof key === 'string' && key !== '' && !(key in found), `attribute ${key}`)
    const { stringValue, intValue } = only(value as Json, ['stringValue', 'intValue'])
    assert.equal((stringValue === undefined) !== (intValue === undefined), true)
    if (intValue !== undefined) assert.match(String(intValue), /^-?\d+$/)
    found[key] = intValue === undefined ? (stringValue as string) : Number(intValue)
    assert.ok(intValue !== undefined || typeof stringValue === 'string')
  }
  return found
}

function list(value: unknown): Json[] {
  assert.ok(Array.isArray(value))
  return value as Json[]
}

function only(value: Json, keys: readonly string[]): Json {
  assert.ok(typeof value === 'object' && value !== null)
  for (const key of Object.keys(value)) assert.ok(keys.includes(key), `unknown field ${key}`)
  return value
}
