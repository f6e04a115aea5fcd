import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { after, before, beforeEach, describe, it } from 'node:test'
import { call } from './client.ts'
import { type OtlpReceiver, type ReceivedSpan, startReceiver } from './otlp-receiver.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const CALLER = 'b7ad6b7169203331'
const SAMPLED = `00-${TRACE}-${CALLER}-01`
const UNSAMPLED = `00-${TRACE}-${CALLER}-00`

describe('tracing', () => {
  let upstream: TestUpstream
  let receiver: OtlpReceiver
  let gateway: TestGateway
  /** How many of the next requests lose their connection before a response. */
  let toBreak = 0
  const seen: { readonly path: string; readonly traceparent: string; readonly tracestate: string }[] = []

  before(async () => {
    upstream = await startUpstream((req, res) => {
      const { traceparent, tracestate } = req.headers
      seen.push({ path: String(req.url), traceparent: String(traceparent), tracestate: String(tracestate) })
      if (toBreak > 0) {
        toBreak -= 1
        req.socket.destroy()
      } else if (req.url === '/api/hangs') res.writeHead(200).write('a')
      else res.writeHead(req.url === '/api/broken' ? 500 : 200).end('whole')
    })
    receiver = await startReceiver()
    gateway = await startGateway({
      config: {
        upstream: upstream.url,
        tracing: {
          endpoint: receiver.endpoint,
          headers: { Authorization: { env: 'OTLP_KEY' } },
          compression: 'gzip',
          delayMs: 20,
          maxQueue: 128,
          timeoutMs: 3000,
          ratio: 0,
          resource: { 'deployment.environment.name': 'test' },
        },
        routes: [{ path: '/api/*', auth: ['none'], methods: ['GET'] }],
      },
      env: { OTLP_KEY: 'Bearer k', OTEL_SERVICE_NAME: 'payments' },
    })
  })
  after(async () => {
    await gateway.end()
    receiver.close()
    upstream.close()
  })
  beforeEach(() => {
    receiver.spans.length = 0
    seen.length = 0
  })

  const ask = (path: string, traceparent?: string, more: Readonly<Record<string, string>> = {}) =>
    call(gateway.url + path, { headers: { ...(traceparent && { traceparent }), ...more } })
  const spans = (count: number) =>
    until(() => {
      assert.deepEqual(receiver.faults, [])
      return receiver.spans.length >= count ? receiver.spans : undefined
    })
  const one = (kind: ReceivedSpan['kind'], among: readonly ReceivedSpan[]) => {
    const [span, another] = among.filter((each) => each.kind === kind)
    assert.ok(span !== undefined && another === undefined)
    return span
  }

  it('makes a server and a client span of a request whose caller is sampled', async () => {
    const headers = {
      'user-agent': 'app/1',
      tracestate: 'a=1',
      'x-request-id': 'r-1',
      authorization: 'Basic c2VjcmV0',
    }
    await ask('/api/x?secret=1', SAMPLED, headers)
    const found = await spans(2)
    const server = one('server', found)
    const client = one('client', found)
    assert.deepEqual([server.name, client.name], ['GET /api/*', 'GET'])
    assert.deepEqual(
      [server.traceId, server.parentSpanId, client.parentSpanId],
      [TRACE, CALLER, server.spanId],
    )
    assert.deepEqual([server.flags, client.flags], [0x301, 0x101])
    assert.deepEqual([server.traceState, client.traceState], ['a=1', 'a=1'])
    assert.ok(server.startNs <= client.startNs && client.endNs <= server.endNs)
    assert.ok(Math.abs(Number(server.startNs / 1_000_000n) - Date.now()) < 60_000)
    const port = Number(new URL(upstream.url).port)
    const common = {
      'http.request.method': 'GET',
      'http.response.status_code': 200,
      'network.protocol.version': '1.1',
    }
    assert.deepEqual(server.attributes, {
      ...common,
      'url.scheme': 'http',
      'url.path': '/api/x',
      'http.route': '/api/*',
      'server.address': '127.0.0.1',
      'server.port': gateway.port,
      'client.address': '127.0.0.1',
      'network.peer.address': '127.0.0.1',
      'user_agent.original': 'app/1',
      'countersign.request_id': 'r-1',
    })
    assert.deepEqual(client.attributes, {
      ...common,
      'url.full': `${upstream.url}/api/x`,
      'server.address': '127.0.0.1',
      'server.port': port,
    })
    assert.deepEqual(
      [server.resource['service.name'], server.resource['deployment.environment.name']],
      ['payments', 'test'],
    )
    assert.deepEqual(seen, [
      { path: '/api/x?secret=1', traceparent: `00-${TRACE}-${client.spanId}-01`, tracestate: 'a=1' },
    ])
    assert.equal(receiver.headers.at(-1)?.authorization, 'Bearer k')
    assert.equal(JSON.stringify(receiver.spans, (_, value) => String(value)).includes('secret'), false)
  })

  it('passes the trace of an unsampled caller on unchanged, and samples no new trace at ratio 0', async () => {
    await ask('/api/x', UNSAMPLED)
    await ask('/api/x')
    assert.equal(seen[0]?.traceparent, UNSAMPLED)
    assert.match(seen[1]?.traceparent ?? '', /^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/)
    await ask('/api/last', SAMPLED)
    const found = await spans(2)
    assert.deepEqual(
      found.map(({ attributes }) => attributes['url.path'] ?? attributes['url.full']),
      ['/api/last', `${upstream.url}/api/last`],
    )
  })

  it('has a span for each attempt, and the service gets its id', async () => {
    toBreak = 1
    assert.equal((await ask('/api/again', SAMPLED)).status, 200)
    const clients = (await spans(3)).filter(({ kind }) => kind === 'client')
    assert.deepEqual(
      clients.map(({ attributes, isError }) => [
        attributes['http.request.resend_count'],
        attributes['error.type'],
        attributes['http.response.status_code'],
        isError,
      ]),
      [
        [undefined, 'broken', undefined, true],
        [1, undefined, 200, false],
      ],
    )
    assert.deepEqual(
      seen.map(({ traceparent }) => traceparent),
      clients.map(({ spanId }) => `00-${TRACE}-${spanId}-01`),
    )
  })

  it('names the trace in the log line of a refusal, sampled or not', async () => {
    toBreak = 2
    await ask('/api/unlogged', UNSAMPLED, { 'x-request-id': 'r-logged' })
    const line = await gateway.process.line((each) => each.requestId === 'r-logged')
    assert.deepEqual([line.traceId, line.code], [TRACE, 'upstream_broken'])
  })

  it('marks refusals, errors of the service, and a client that goes away', async () => {
    await ask('/nowhere', SAMPLED)
    const [unrouted] = await spans(1)
    assert.deepEqual(
      [unrouted?.name, unrouted?.isError, unrouted?.attributes['countersign.refusal']],
      ['GET', false, 'not_found'],
    )
    await ask('/api/broken', SAMPLED)
    const broken = (await spans(3)).slice(1)
    for (const { attributes } of broken) assert.equal(attributes['error.type'], '500')
    toBreak = 2
    await ask('/api/lost', SAMPLED)
    const lost = (await spans(6)).slice(3)
    assert.deepEqual(
      lost.map(({ attributes }) => attributes['error.type']),
      ['upstream_broken', 'broken', 'broken'],
    )
    assert.equal(one('server', lost).attributes['http.response.status_code'], 502)
    const socket = connect(gateway.port, '127.0.0.1')
    socket.write(`GET /api/hangs HTTP/1.1\r\nHost: a\r\ntraceparent: ${SAMPLED}\r\n\r\n`)
    await once(socket, 'data')
    socket.destroy()
    const left = (await spans(8)).slice(6)
    assert.deepEqual(
      left.map(({ attributes }) => [attributes['error.type'], attributes['http.response.status_code']]),
      [
        ['client_disconnected', 200],
        ['client_disconnected', 200],
      ],
    )
  })

  it('keeps spans while the receiver is away, and all requests pass', async () => {
    receiver.next.push(
      (res) => res.writeHead(503, { 'retry-after': '0' }).end(),
      () => {}, // No response, until the gateway gives up.
      (res) => res.writeHead(429, { 'retry-after': '0' }).end('{"partialSuccess":'),
    )
    for (let asked = 0; asked < 5; asked++) assert.equal((await ask(`/api/${asked}`, SAMPLED)).status, 200)
    await spans(10)
    const paths = receiver.spans
      .filter(({ kind }) => kind === 'server')
      .map(({ attributes }) => attributes['url.path'])
    assert.deepEqual(paths, ['/api/0', '/api/1', '/api/2', '/api/3', '/api/4'])
    assert.equal(receiver.next.length, 0)
    await gateway.process.line((line) => line.msg === 'spans are not exported')
    await gateway.process.line((line) => line.msg === 'spans are exported again')
  })

  it('sends waiting spans before the gateway stops', async (t) => {
    const stopping = await startGateway({
      config: { upstream: upstream.url, routes: [{ path: '/api/*', auth: ['none'] }] },
      env: {
        OTEL_EXPORTER_OTLP_ENDPOINT: new URL('/', receiver.endpoint).href,
        OTEL_BSP_SCHEDULE_DELAY: '600000',
      },
    })
    t.after(() => stopping.end())
    for (let asked = 0; asked < 4; asked++) await call(`${stopping.url}/api/x`)
    assert.equal(receiver.spans.length, 0)
    assert.equal(await stopping.end(), 0)
    assert.deepEqual(receiver.faults, [])
    assert.equal(receiver.spans.length, 8)
    assert.equal(new Set(receiver.spans.map(({ traceId }) => traceId)).size, 4)
    assert.ok(
      receiver.spans.every(({ kind, parentSpanId }) => (kind === 'server') === (parentSpanId === undefined)),
    )
  })

  it('counts spans that the receiver refuses or that do not fit, and sends the others at the stop', async () => {
    const dropped = (reason: string) =>
      gateway.metric(`gateway_trace_spans_dropped_total{reason="${reason}"}`)
    receiver.next.push((res) => res.writeHead(400).end())
    await ask('/api/x', SAMPLED)
    await until(async () => ((await dropped('refused')) === 2 ? true : undefined))
    receiver.next.push((res) =>
      res.writeHead(200).end('{"partialSuccess":{"rejectedSpans":"1","errorMessage":"full"}}'),
    )
    await ask('/api/x', SAMPLED)
    await until(async () => ((await dropped('refused')) === 3 ? true : undefined))
    // These two spans wait to be sent again, outside the queue, which has room for 128 others.
    receiver.next.push((res) => res.writeHead(503, { 'retry-after': '60' }).end())
    await ask('/api/x', SAMPLED)
    await until(() => (receiver.next.length === 0 ? true : undefined))
    for (let asked = 0; asked < 130; asked++) assert.equal((await ask('/nowhere', SAMPLED)).status, 404)
    assert.equal(await dropped('queue_full'), 2)
    assert.equal(receiver.spans.length, 0)
    assert.equal(await gateway.end(), 0)
    assert.deepEqual([receiver.spans.length, receiver.faults], [130, []])
  })
})
