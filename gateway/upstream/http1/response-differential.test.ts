import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import fc from 'fast-check'
import { LONGER } from '../../e2e/long-runs.ts'
import {
  type Received,
  type ScriptedUpstream,
  scriptedUpstream,
  send,
  transport,
  upstreamsTo,
} from '../contract/scripted.test-support.ts'
import type { UpstreamClient } from '../create-upstreams.ts'
import { readByUndici, type UndiciReading } from './undici-reader.test-support.ts'

/** Reasons why our client refuses what llhttp takes, each by a rule of RFC 9112. */
const STRICTER =
  /no HTTP\/1 status line|other than chunked|more than one|interim responses|digits|extension|fields|control character/

const METHODS = ['GET', 'HEAD', 'POST'] as const

const lineEnd = fc.constantFrom('\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\n', '\r', '\r\n ')
const body = fc.constantFrom('', 'a', 'hello', '0\r\n\r\n', 'HTTP/1.1 200 OK\r\n\r\n')
const field = fc.constantFrom(
  ...[
    'Content-Length: 5',
    'Content-Length: 0',
    'content-length:1',
    'Content-Length: 05',
    'Content-Length: 5,5',
  ],
  ...['Transfer-Encoding: chunked', 'transfer-encoding: Chunked ', 'Transfer-Encoding: gzip, chunked'],
  ...[
    'Connection: close',
    'Connection: keep-alive',
    'Keep-Alive: timeout=5',
    'Upgrade: h2c',
    'X: \xe9',
    'Y:',
    'Z :z',
  ],
)
const statusLine = fc.constantFrom(
  ...Array<string>(6).fill('HTTP/1.1 200 OK'),
  ...[
    'HTTP/1.0 200 OK',
    'HTTP/1.1 204 No',
    'HTTP/1.1 304 No',
    'HTTP/1.1 404',
    'HTTP/1.1 101 S',
    'HTTP/2.0 200 OK',
  ],
)
const chunked = fc
  .array(fc.constantFrom('5\r\nhello\r\n', '1;x=y\r\na\r\n', 'A\r\n0123456789\r\n', '2\r\nabc\r\n'), {
    maxLength: 3,
  })
  .map((chunks) => `${chunks.join('')}0\r\n\r\n`)
const response = fc
  .tuple(
    fc.constantFrom('', '', '', 'HTTP/1.1 100 Continue\r\n\r\n', 'HTTP/1.1 103 Early\r\nLink: a\r\n\r\n'),
    statusLine,
    fc.array(field, { maxLength: 3 }),
    lineEnd,
    fc.oneof(body, chunked),
  )
  .map(([interim, line, fields, end, rest]) => `${interim}${[line, ...fields].join(end)}${end}\r\n${rest}`)
/** A response with correct framing, so that a mutation changes a good one. */
const sound = fc.oneof(
  chunked.map((chunks) => `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: y\r\n\r\n${chunks}`),
  body.map((text) => `HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: ${text.length}\r\n\r\n${text}`),
)
const mutation = fc.record({
  at: fc.nat(200),
  drop: fc.nat(2),
  insert: fc.constantFrom('', ' ', '\t', '\r', '\n', '\0', ':', ';', '0', 'f', '\xff', '\r\n', 'A: b\r\n'),
})
const mutated = fc.tuple(sound, fc.array(mutation, { maxLength: 2 })).map(([text, mutations]) =>
  mutations.reduce((left, { at, drop, insert }) => {
    const place = at % (left.length + 1)
    return left.slice(0, place) + insert + left.slice(place + drop)
  }, text),
)

describe('our own client and undici, given the same responses of an unpredictable upstream', () => {
  let scripted: ScriptedUpstream
  let script = ''
  let ours: UpstreamClient
  before(async () => {
    scripted = await scriptedUpstream({ onRequest: ({ socket }) => socket.end(script, 'latin1') })
    ours = upstreamsTo([scripted.url])
  })
  after(async () => {
    await ours.close()
    await scripted.close()
  })

  const agree = async (text: string, method: string): Promise<void> => {
    // llhttp does not know a coding with a tab (RFC 9110 section 5.6.3 allows it), and takes the frames for the body.
    fc.pre(!/chunked[ ]*\t/i.test(text))
    // undici compares the body with a length from which it has not removed white space.
    fc.pre(!/content-length:.*[ \t]\r/i.test(text))
    script = text
    const own = await send(ours, { method }).over
    // undici skips every interim response but a 100 that it did not ask for.
    script = text.replace('HTTP/1.1 100 Continue', 'HTTP/1.1 102 Processing')
    const other = await readByUndici(scripted.url, method)
    if (own.ended) assert.deepEqual(summary(own), summary(other))
    // Our client is never milder, and is stricter only for a reason.
    // llhttp skips line ends before a response.
    else if (other.ended && !/^[\r\n]/.test(text)) assert.match(own.fault?.cause ?? '', STRICTER)
    else if (other.ended) assert.equal(own.fault?.kind, 'malformed')
    // The kind depends on how early the fault is seen.
    else assert.match(own.fault?.kind ?? '', /^(broken|malformed)$/)
  }

  it('read the same from what both accept, and ours accepts nothing that undici refuses', async () => {
    const { DIFFERENTIAL_RUNS } = process.env
    // Each run has the same responses, as a new finding may be a fault of undici. `DIFFERENTIAL_RUNS` looks for more.
    const runs =
      DIFFERENTIAL_RUNS === undefined
        ? { numRuns: (transport.tls ? 60 : 300) * LONGER, seed: 9112 }
        : { numRuns: Number(DIFFERENTIAL_RUNS), endOnFailure: true }
    await fc.assert(fc.asyncProperty(fc.oneof(response, mutated), fc.constantFrom(...METHODS), agree), runs)
  })
})

function summary(read: Received | UndiciReading) {
  return {
    ended: read.ended,
    status: read.status,
    headers: read.headers.map((text) => text.trim()),
    body: Buffer.concat(read.chunks).toString('latin1'),
    information: read.information,
  }
}
