import assert from 'node:assert/strict'
import { duplexPair } from 'node:stream'
import { describe, it } from 'node:test'
import { Field } from '../../edge/syntax/field.ts'
import type { Gateway } from '../../gateway.ts'
import type { UpstreamRequest } from '../../upstream/upstream-client.ts'
import { forward } from '../forward.ts'
import { closeAbandoned } from '../open.ts'
import { record } from '../record.ts'
import { makeExchange, makeGateway, makePrincipal, makeRoute, NOW_MS } from '../stage.test-support.ts'
import { takePermit } from '../take-permit.ts'
import type { Forwarding } from './forwarding.ts'

type Request = Parameters<typeof makeExchange>[0]

/** An exchange that has been sent to an upstream, which the test plays by calling the forwarding. */
function forwarded(request: Request = {}, revocations: object = {}, speaksHttp2 = request.version === '2') {
  const sent: UpstreamRequest[] = []
  let aborted = 0
  const call = { resume: () => {}, abort: () => aborted++, sent: true, upstream: 'http://up' }
  const made = makeGateway({
    revocations: {
      isSafe: true,
      isRevoked: () => false,
      revoke: () => true,
      ...revocations,
    } as object as Gateway['revocations'],
  })
  const { exchange, res } = makeExchange(request)
  exchange.path = '/api/x'
  exchange.query = '?a=1'
  exchange.host = 'api.example'
  const send = (request: UpstreamRequest) => {
    sent.push(request)
    return call
  }
  exchange.route = makeRoute({ client: { send, speaksHttp2 } })
  record(made.gateway, exchange)
  takePermit(made.gateway, exchange)
  forward(made.gateway, exchange)
  return {
    ...made,
    exchange,
    res,
    sent,
    forwarding: exchange.forwarding as Forwarding,
    aborted: () => aborted,
  }
}

const length = (bytes: number) => [new Field('Content-Length', String(bytes))]

describe('forward', () => {
  it('sends what was admitted, within the times of the route', () => {
    const { sent, res } = forwarded()
    assert.equal(sent.length, 1)
    const [{ method, target, body, idleMs } = {} as UpstreamRequest] = sent
    assert.deepEqual([method, target, body, idleMs, res.idleMs], ['GET', '/api/x?a=1', null, 1000, 1000])
    assert.deepEqual(res.calls, [])
  })

  it('lets the client send the body that it waits to send', () => {
    const headers = { Expect: '100-continue', 'Content-Length': '5' }
    assert.deepEqual(forwarded({ method: 'PUT', headers, complete: false }).res.calls, ['interim 100'])
    assert.deepEqual(forwarded({ method: 'PUT', headers, version: '1.0', complete: false }).res.calls, [])
  })
})

describe('a response of the upstream', () => {
  it('is closed before its last byte is handed on', () => {
    const { forwarding, exchange, res, trail, time } = forwarded()
    time.nowMs += 4
    forwarding.head(200, length(4))
    assert.equal(exchange.closed, false)
    forwarding.data(Buffer.from('ab'))
    assert.equal(exchange.closed, false)
    forwarding.data(Buffer.from('cd'))
    assert.equal(exchange.closed, true)
    forwarding.end()
    assert.deepEqual([res.status, res.body, res.calls.at(-1)], [200, 'abcd', 'end'])
    assert.deepEqual([trail.records[1]?.statusCode, trail.records[1]?.duration], [200, 4])
  })

  it('is closed with its head when it has no body', () => {
    const { forwarding, exchange, res } = forwarded()
    forwarding.head(200, length(0))
    assert.deepEqual([exchange.closed, res.calls], [true, ['head 200']])
  })

  it('gets its head flushed when its length is not known', async () => {
    const { forwarding, res } = forwarded()
    forwarding.head(200, [])
    await new Promise(setImmediate)
    assert.deepEqual(res.calls, ['head 200', 'flushHead'])
  })

  it('passes early hints on when they are well-formed, and never to HTTP/1.0', () => {
    const hint = [new Field('Link', '</a.css>; rel=preload'), new Field('X-Other', '1')]
    const { forwarding, res } = forwarded()
    forwarding.information(103, hint)
    forwarding.information(103, [new Field('Link', 'a b')])
    assert.deepEqual(res.calls, ['interim 103 Link: </a.css>; rel=preload'])
    const old = forwarded({ version: '1.0' })
    old.forwarding.information(103, hint)
    assert.deepEqual(old.res.calls, [])
  })

  it('passes lists of early hints and quoted parameters on, and drops only what is malformed', () => {
    const { forwarding, res } = forwarded()
    const list =
      '</a,b.css>; rel=preload; as=style, </c>;rel="preload next" ; title="a, \\"b\\"; c";crossorigin'
    forwarding.information(103, [
      new Field('Link', list),
      ...['</a>; ', '</a>, ', '</a> </b>', '</a>;x="', '</a', '', '</a>;=b'].map(
        (value) => new Field('Link', value),
      ),
      new Field('Link', '</d>'),
    ])
    assert.deepEqual(res.calls, [`interim 103 Link: ${list}\r\nLink: </d>`])
  })

  it('takes no long time for early hints that are made to take long', () => {
    const { forwarding, res } = forwarded()
    const told = (value: string) => {
      const before = process.cpuUsage()
      forwarding.information(103, [new Field('Link', value)])
      const { user, system } = process.cpuUsage(before)
      assert.ok(user + system < 200_000, `${user + system} µs for ${value.slice(0, 20)}`)
    }
    for (const piece of [';a=b', ';a="b"', ';a', ' ;', ' ', ';a=', ';a=""', ', <b>', '="', '\\"', '<', ';<'])
      for (const ending of [';', '"', ' x', ',', '>']) {
        told(`<a>${piece.repeat(25_000)}${ending}`)
        told(`<a>;b="${piece.repeat(25_000)}${ending}`)
      }
    told('<a>; rel=preload')
    assert.equal(res.calls.at(-1), 'interim 103 Link: <a>; rel=preload')
    assert.ok(res.calls.every((call) => call.startsWith('interim 103 Link: <a>')))
  })

  it('becomes a refusal when it fails before its head, and is broken off after', () => {
    const before = forwarded()
    before.forwarding.fault({ kind: 'timeout', cause: 'silence' })
    assert.deepEqual([before.res.status, before.exchange.refusalCode], [504, 'upstream_timeout'])
    const after = forwarded()
    after.forwarding.head(200, length(4))
    after.forwarding.data(Buffer.from('ab'))
    after.forwarding.fault({ kind: 'broken', cause: 'reset' })
    assert.equal(after.res.calls.at(-1), 'breakOff')
    assert.equal(after.trail.records[1]?.statusCode, 502)
  })

  it('ends the sessions that its head names, and is withheld when that cannot be written', () => {
    const ended: string[] = []
    const head = [new Field('X-Revoke-Session', 's1, s2'), ...length(0)]
    const written = forwarded({}, { revoke: (session: string) => ended.push(session) > 0 })
    written.forwarding.head(200, head)
    assert.deepEqual([ended, written.res.status], [['s1', 's2'], 200])
    assert.equal(written.res.lines.includes('Revoke'), false)
    const unwritten = forwarded({}, { revoke: () => false })
    unwritten.forwarding.head(200, head)
    assert.deepEqual([unwritten.res.status, unwritten.exchange.refusalCode], [503, 'sessions_unavailable'])
  })

  it('is broken off within a second when the session of its caller ends', () => {
    let revoked = false
    const { forwarding, exchange, res, time } = forwarded({}, { isRevoked: () => revoked })
    exchange.principal = makePrincipal({ session: 's1' })
    forwarding.head(200, [])
    forwarding.data(Buffer.from('a'))
    revoked = true
    assert.equal(forwarding.data(Buffer.from('b')), true)
    time.nowMs += 1000
    assert.equal(forwarding.data(Buffer.from('c')), false)
    assert.deepEqual([res.body, res.calls.at(-1), exchange.refusalCode], ['ab', 'breakOff', 'invalid_token'])
  })
})

describe('a response that streams', () => {
  const EXPIRES_MS = NOW_MS + 1500

  it('is broken off within a second after the token of its caller expires', () => {
    const { forwarding, exchange, res, time } = forwarded()
    exchange.principal = makePrincipal({ expiresAtMs: EXPIRES_MS })
    forwarding.head(200, [])
    forwarding.data(Buffer.from('a'))
    time.nowMs += 1000
    assert.equal(forwarding.data(Buffer.from('b')), true)
    time.nowMs += 1000
    assert.equal(forwarding.data(Buffer.from('c')), false)
    assert.deepEqual([res.body, res.calls.at(-1), exchange.refusalCode], ['ab', 'breakOff', 'invalid_token'])
  })

  it('is completed after the token expires when its length was announced', () => {
    const { forwarding, exchange, res, time } = forwarded()
    exchange.principal = makePrincipal({ expiresAtMs: EXPIRES_MS })
    forwarding.head(200, length(2))
    forwarding.data(Buffer.from('a'))
    time.nowMs += 2000
    assert.equal(forwarding.data(Buffer.from('b')), true)
    assert.equal(res.body, 'ab')
  })

  it('is broken off when the certificate that proved its caller is accepted no more', () => {
    const { forwarding, exchange, res, time } = forwarded()
    exchange.principal = makePrincipal()
    exchange.needsCertificate = true
    forwarding.head(200, [])
    forwarding.data(Buffer.from('a'))
    time.nowMs += 1000
    assert.equal(forwarding.data(Buffer.from('b')), false)
    assert.deepEqual([res.body, exchange.refusalCode], ['a', 'invalid_certificate'])
    const other = forwarded()
    other.exchange.principal = makePrincipal()
    other.forwarding.head(200, [])
    other.forwarding.data(Buffer.from('a'))
    other.time.nowMs += 1000
    assert.equal(other.forwarding.data(Buffer.from('b')), true)
  })
})

describe('an upgrade', () => {
  it('ends the sessions that it names, and is refused when that cannot be written', () => {
    const ended: string[] = []
    const fields = [new Field('X-Revoke-Session', 's1, s2')]
    const written = forwarded(
      { upgrade: 'websocket' },
      { revoke: (session: string) => ended.push(session) > 0 },
    )
    // There is no room for a tunnel, but the sessions end all the same.
    written.forwarding.upgrade(fields, duplexPair()[0])
    assert.deepEqual([ended, written.exchange.refusalCode], [['s1', 's2'], 'overloaded'])
    const unwritten = forwarded({ upgrade: 'websocket' }, { revoke: () => false })
    const [socket] = duplexPair()
    unwritten.forwarding.upgrade(fields, socket)
    assert.deepEqual([unwritten.res.status, unwritten.exchange.refusalCode], [503, 'sessions_unavailable'])
    assert.equal(socket.destroyed, true)
  })
})

describe('a call of gRPC', () => {
  const CALL = { 'content-type': 'application/grpc', te: 'trailers', 'grpc-timeout': '3S' }
  const call = (request: Request = {}, revocations = {}, speaksHttp2 = true) =>
    forwarded({ method: 'POST', version: '2', headers: CALL, ...request }, revocations, speaksHttp2)

  it('is sent as a call, within its own time, where the upstream speaks HTTP/2', () => {
    const [{ isDuplex, acceptsTrailers, totalMs, isTotalOfClient } = {} as UpstreamRequest] = call().sent
    assert.deepEqual([isDuplex, acceptsTrailers, totalMs, isTotalOfClient], [true, true, 3000, true])
    const [plain = {} as UpstreamRequest] = forwarded({ headers: CALL }).sent
    assert.deepEqual([plain.isDuplex, plain.acceptsTrailers, plain.totalMs], [false, false, undefined])
    assert.equal(plain.isTotalOfClient, false)
  })

  it('gets the trailers that are for it, once the end of a session is written', () => {
    const trailers = [new Field('grpc-status', '0'), new Field('X-Revoke-Session', 's1')]
    const ended: string[] = []
    const { forwarding, res, trail } = call({}, { revoke: (session: string) => ended.push(session) > 0 })
    forwarding.head(200, [])
    forwarding.end(trailers)
    assert.deepEqual([res.trailers, ended, trail.records[1]?.statusCode], ['grpc-status: 0\r\n', ['s1'], 200])
    const unwritten = call({}, { revoke: () => false })
    unwritten.forwarding.head(200, [])
    unwritten.res.headersSent = true
    unwritten.forwarding.end(trailers)
    assert.deepEqual(
      [unwritten.res.trailers?.slice(0, 15), unwritten.exchange.refusalCode],
      ['grpc-status: 14', 'sessions_unavailable'],
    )
  })

  it('is recorded with its status, by its trailers, its head, or the status of HTTP alone', () => {
    const says = (status: string) => [new Field('grpc-status', status)]
    const cases: readonly [number, Field[], Field[] | undefined, number][] = [
      [200, [], says('14'), 14],
      [200, [], says('0'), 0],
      [200, says('5'), undefined, 5],
      [200, says('0'), says('13'), 13],
      [200, [], [], 2],
      [200, [], undefined, 2],
      [200, [], says('never heard of'), 2],
      [503, [], undefined, 14],
      [404, [], undefined, 12],
    ]
    for (const [status, head, trailers, expected] of cases) {
      const { forwarding, trail } = call()
      forwarding.head(status, head)
      forwarding.end(trailers)
      const { statusCode, grpcStatus } = trail.records[1] ?? {}
      assert.deepEqual([statusCode, grpcStatus], [status, expected])
    }
    const { gateway, exchange, trail } = call()
    closeAbandoned(gateway, exchange)
    assert.deepEqual([trail.records[1]?.statusCode, trail.records[1]?.grpcStatus], [499, 1])
    const plain = forwarded({ version: '2' })
    plain.forwarding.head(200, [])
    plain.forwarding.end(says('14'))
    assert.equal('grpcStatus' in (plain.trail.records[1] ?? {}), false)
  })

  it('is cancelled at once when its client goes, but not where the upstream does not speak HTTP/2', () => {
    const { forwarding, aborted } = call()
    forwarding.clientGone()
    assert.equal(aborted(), 1)
    const other = call({}, {}, false)
    other.forwarding.clientGone()
    assert.equal(other.aborted(), 0)
    // Otherwise the forwarding would wait for its head, and keep this process alive.
    other.forwarding.abort()
  })
})

describe('a client that goes away', () => {
  it('has its call ended, though all of an announced body has come', () => {
    const { exchange, forwarding, gateway, aborted } = forwarded()
    forwarding.head(200, length(5))
    forwarding.data(Buffer.from('hello'))
    assert.deepEqual([exchange.closed, aborted()], [true, 0])
    closeAbandoned(gateway, exchange)
    assert.equal(aborted(), 1)
  })

  it('is counted against the upstream if it has waited for the head for more than a second, and not otherwise', () => {
    const waiting = (ms: number, hasHead = false) => {
      const { forwarding, measured, time } = forwarded()
      if (hasHead) forwarding.head(200, [])
      time.nowMs += ms
      forwarding.clientGone()
      return measured.filter((name) => name.startsWith('gateway_upstream_unanswered_total'))
    }
    assert.deepEqual(waiting(1001), ['gateway_upstream_unanswered_total http://up'])
    assert.deepEqual([waiting(1000), waiting(60_000, true)], [[], []])
  })

  it('has its request cancelled once a drain is over', () => {
    const { forwarding, gateway, aborted } = forwarded({ method: 'POST' })
    gateway.load.phase = 'over'
    forwarding.clientGone()
    assert.deepEqual([aborted(), gateway.load.orphans.size], [1, 0])
  })

  it('has its request cancelled when the method changes nothing', () => {
    const { forwarding, aborted } = forwarded()
    forwarding.clientGone()
    assert.equal(aborted(), 1)
  })

  it('has the head of its response awaited, because the head may end sessions, and its permit kept until then', () => {
    const ended: string[] = []
    const { forwarding, gateway, aborted } = forwarded(
      { method: 'POST' },
      { revoke: (session: string) => ended.push(session) > 0 },
    )
    forwarding.clientGone()
    assert.deepEqual([aborted(), gateway.load.permits.taken, gateway.load.orphans.size], [0, 1, 1])
    forwarding.head(200, [new Field('X-Revoke-Session', 's1')])
    assert.deepEqual([ended, aborted(), gateway.load.permits.taken], [['s1'], 1, 0])
    assert.equal(gateway.load.orphans.size, 0)
  })

  it('counts its webhook as taken when the service has begun a 2xx, unless the response breaks off', () => {
    const taken = (end: (one: ReturnType<typeof forwarded>) => void) => {
      const one = forwarded({ method: 'POST' })
      let isTaken: boolean | undefined
      Object.assign(one.gateway, {
        deliveries: {
          end: (_: unknown, known: boolean) => {
            isTaken = known
          },
        },
      })
      one.exchange.delivery = { keys: ['webhook'], sender: 'acme' }
      one.forwarding.head(200, [])
      end(one)
      return isTaken
    }
    assert.equal(
      taken(({ gateway, exchange }) => closeAbandoned(gateway, exchange)),
      true,
    )
    assert.equal(
      taken(({ forwarding }) => forwarding.fault({ kind: 'broken', cause: 'reset' })),
      false,
    )
  })

  it('has its webhook in progress until the head of the response, which says if it is taken', () => {
    for (const [status, isTaken] of [
      [202, true],
      [500, false],
    ] as const) {
      const ends: boolean[] = []
      const { exchange, forwarding, gateway } = forwarded({ method: 'POST' })
      Object.assign(gateway, { deliveries: { end: (_: unknown, taken: boolean) => ends.push(taken) } })
      exchange.delivery = { keys: ['webhook'], sender: 'acme' }
      closeAbandoned(gateway, exchange)
      assert.deepEqual(ends, [])
      forwarding.head(status, [])
      assert.deepEqual(ends, [isTaken])
    }
  })
})
