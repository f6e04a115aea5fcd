import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { LONGER } from '../../../e2e/long-runs.ts'
import { readTarget } from '../../rules/request-target.ts'
import { PARSED_METHODS } from '../../syntax/status-codes.ts'
import { type Seen, scribe, serverOf, wireTo } from './scribe.test-support.ts'
import { turns, Wire } from './wire.test-support.ts'

interface Taken {
  readonly method: string
  readonly target: string
  readonly version: string
  readonly headers: readonly string[]
  readonly body: string
}

interface Outcome {
  /** The requests that were whole. */
  readonly taken: readonly Taken[]
  /** Why nothing was taken behind the requests; empty without a reason. */
  readonly fault: string
}

/** Faults of what node:http takes and we refuse, each by a rule of RFC 9110 or 9112, or of the gateway. */
const STRICTER = new RegExp(
  [
    // llhttp takes several of these, and a list of codings that ends with chunked.
    'The only transfer coding accepted is chunked|more than one transfer-encoding header|HTTP/1.0 has no transfer',
    'other than letters, digits and hyphens|header is repeated|more than one (Host|content-length header)',
    // llhttp takes chunk extensions with an empty name or value, HTTP/2.0, and 0.9 (no version, ended by LF alone).
    'a malformed chunk extension|no HTTP/1 request line|a line feed without its carriage return',
    'The request target|The path has',
  ].join('|'),
)

/**
 * A field of framing or connection among trailers. llhttp obeys or refuses it, and we drop it with all other trailers
 * (RFC 9110 section 6.5.1). Nothing of it goes upstream.
 */
const MISPLACED = /\r\n0+\r\n(?:[^\r\n:]+:[^\r\n]*\r\n)*(?:content-length|transfer-encoding|connection):/i

/** A tab behind the coding is no part of it (RFC 9110 section 5.5); llhttp takes a space there, and no tab. */
const TABBED = /transfer-encoding:[ \t]*chunked *\t/i

/** node:http refuses it; RFC 9110 section 2.5 reads it as HTTP/1.1. */
const NEWER = / HTTP\/1\.[2-9]\r\n/

/** What node:http reports when only the end of its input stops it; empty for no fault. */
const ENDED = /^$|HPE_INVALID_EOF_STATE|HPE_CLOSED_CONNECTION/

/** True for HTTP/1.0 with close and keep-alive. node:http obeys keep-alive, we close (RFC 9112 section 9.3). */
function closesAllTheSame({ version, headers }: Taken): boolean {
  const options = headers.filter((_, i) => /^connection$/i.test(headers[i - 1] ?? '')).join()
  return version === '1.0' && /close/i.test(options) && /keep-alive/i.test(options)
}

/** @returns `methods` of all requests whose head came */
async function ourOutcome(
  pieces: readonly string[],
): Promise<Outcome & { readonly methods: readonly string[] }> {
  const handler = scribe()
  const wire = wireTo(serverOf(handler))
  await feed(wire, pieces)
  assert.ok(wire.destroyed, 'the connection ends behind its client')
  const taken: Taken[] = []
  const methods: string[] = []
  for (const seen of handler.seen) {
    const fault = seen.fault === undefined ? targetFault(seen) : seen.cause
    if (fault !== '') return { taken, fault, methods }
    methods.push(seen.method)
    if (!seen.whole) break
    taken.push({ ...toldOf(seen), body: seen.text })
  }
  return { taken, fault: '', methods }
}

function toldOf({ method, target, version, headers }: Seen): Omit<Taken, 'body'> {
  return { method, target, version, headers: [...headers] }
}

/** `admit` refuses this target, and the connection goes on. */
function targetFault({ method, target }: Seen): string {
  if (method === 'CONNECT') return 'The request target is none of ours'
  const read = readTarget(target)
  return typeof read === 'string' ? read : ''
}

async function theirOutcome(pieces: readonly string[]): Promise<Outcome> {
  const taken: Taken[] = []
  let fault = ''
  const take = (req: IncomingMessage, res: ServerResponse) => {
    const { method = '', url = '', httpVersion: version, rawHeaders: headers } = req
    let body = ''
    req.setEncoding('latin1')
    req.on('data', (piece: string) => {
      body += piece
    })
    req.on('end', () => {
      taken.push({ method, target: url, version, headers, body })
      res.end()
    })
  }
  const server = createServer({ insecureHTTPParser: false, requireHostHeader: false }, take)
  server.on('checkContinue', take)
  server.on('checkExpectation', take)
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    fault ||= error.code ?? error.message
    // The bytes before the end have still to be read.
    void turns().then(() => socket.destroy())
  })
  Object.assign(server, { httpAllowHalfOpen: true })
  const wire = new Wire()
  server.emit('connection', wire)
  await feed(wire, pieces)
  return { taken, fault }
}

async function feed(wire: Wire, pieces: readonly string[]): Promise<void> {
  for (const piece of pieces) wire.send(piece)
  wire.sendEnd()
  for (let i = 0; i < 50 && !wire.destroyed; i++) await turns(1)
  await turns(2)
}

const METHODS = [
  'GET',
  'GET',
  'POST',
  'PUT',
  'HEAD',
  'DELETE',
  'OPTIONS',
  'QUERY',
  'CONNECT',
  'PRI',
  'get',
  'MKCOLA',
]
const TARGETS = [
  '/',
  '/',
  '/a/b?c=d',
  '*',
  'http://a/b',
  'a:1',
  '/%zz',
  '/a;b',
  '/a#b',
  '/\xe9',
  '/"<>|',
  'x',
]
const FIELDS = [
  ...[
    'Content-Length: 5',
    'Content-Length: 0',
    'content-length:\t1 ',
    'Content-Length: 05',
    'Content-Length: 5,5',
  ],
  ...[
    'Content-Length: +5',
    'Content-Length: 5 5',
    'Content-Length: 0x5',
    'Content-Length:',
    'Content-Length : 5',
  ],
  ...['Transfer-Encoding: chunked', 'transfer-encoding: Chunked ', 'Transfer-Encoding: gzip, chunked'],
  ...['Transfer-Encoding: identity', 'Transfer-Encoding:\x0bchunked', 'Transfer-Encoding: chunked, chunked'],
  ...[
    'Connection: close',
    'Connection: keep-alive',
    'Connection: upgrade',
    'Upgrade: h2c',
    'Keep-Alive: timeout=5',
  ],
  ...[
    'Expect: 100-continue',
    'Trailer: X',
    'X: \xe9',
    'Y:',
    'Z :z',
    ' folded',
    'A_B: c',
    'T: a\tb',
    'N: a\0b',
  ],
]
const BODIES = ['', '', 'a', 'hello', '0\r\n\r\n', 'GET /smuggled HTTP/1.1\r\n\r\n', '\r\n', '\n']
const CHUNKS = [
  '5\r\nhello\r\n',
  '1;x=y\r\na\r\n',
  'A;q="\\"\t;"\r\n0123456789\r\n',
  '2\r\nabc\r\n',
  '2\r\nabX\n',
  '01\r\nb\r\n',
  '1 \r\na\r\n',
]
const TRAILERS = [
  '',
  '',
  '',
  'X: y\r\n',
  'X\r\n',
  'Content-Length: 3\r\n',
  'Transfer-Encoding: chunked\r\n',
  'Connection: close\r\n',
  ' y\r\n',
]
const INSERTS = [
  '',
  ' ',
  '\t',
  '\r',
  '\n',
  '\0',
  ':',
  ';',
  '0',
  'f',
  '"',
  '\xff',
  '\x7f',
  '\r\n',
  'A: b\r\n',
  '\r\n\r\n',
  ' HTTP/1.1',
]

/** Mostly the first, so that most of a request is good. */
const mostly = (first: string, ...others: string[]) =>
  fc.constantFrom(...Array<string>(12).fill(first), ...others)

const chunked = fc
  .tuple(fc.array(fc.constantFrom(...CHUNKS), { maxLength: 3 }), fc.constantFrom(...TRAILERS))
  .map(([chunks, trailer]) => `${chunks.join('')}0\r\n${trailer}\r\n`)
const wild = fc
  .record({
    method: fc.constantFrom(...METHODS),
    target: fc.constantFrom(...TARGETS),
    version: mostly('HTTP/1.1', 'HTTP/1.0', 'HTTP/2.0', 'HTTP/0.9', 'HTTP/1.2', 'http/1.1', 'HTTP/1.10'),
    gap: mostly(' ', '  ', '\t'),
    end: mostly('\r\n', '\n', '\r', '\r\r\n'),
    fields: fc.array(fc.constantFrom(...FIELDS), { maxLength: 3 }),
    rest: fc.oneof(fc.constantFrom(...BODIES), chunked),
  })
  .map(
    ({ method, target, version, gap, end, fields, rest }) =>
      `${[`${method} ${target}${gap}${version}`, ...fields].join(end)}${end}\r\n${rest}`,
  )
/** A request with correct framing, so that a mutation changes a good one, and what follows is read. */
const sound = fc.oneof(
  fc.constant('GET /a HTTP/1.1\r\nHost: a\r\n\r\n'),
  chunked.map((chunks) => `POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\nHost: b\r\n\r\n${chunks}`),
  fc
    .constantFrom(...BODIES)
    .map((body) => `PUT /c HTTP/1.1\r\nContent-Length: ${body.length}\r\n\r\n${body}`),
  fc.constant('GET /d HTTP/1.0\r\nConnection: keep-alive\r\n\r\n'),
)
const mutation = fc.record({ at: fc.nat(400), drop: fc.nat(2), insert: fc.constantFrom(...INSERTS) })
const mutated = fc
  .tuple(fc.array(sound, { minLength: 1, maxLength: 4 }), fc.array(mutation, { maxLength: 3 }))
  .map(([requests, mutations]) =>
    mutations.reduce((text, { at, drop, insert }) => {
      const place = at % (text.length + 1)
      return text.slice(0, place) + insert + text.slice(place + drop)
    }, requests.join('')),
  )
const several = fc.array(fc.oneof(wild, sound), { minLength: 1, maxLength: 3 }).map((all) => all.join(''))

/** Cuts a text at up to three places. */
function cut(text: string, places: readonly number[]): string[] {
  const at = places.map((place) => place % (text.length + 1)).sort((a, b) => a - b)
  return [0, ...at].map((from, i) => text.slice(from, at[i] ?? text.length))
}

describe('our server and a strict server of node:http, given the same bytes,', () => {
  const agree = async (text: string, places: readonly number[]): Promise<void> => {
    fc.pre(!MISPLACED.test(text) && !TABBED.test(text) && !NEWER.test(text))
    const pieces = cut(text, places)
    const [ours, theirs] = await Promise.all([ourOutcome(pieces), theirOutcome(pieces)])
    const both = Math.min(ours.taken.length, theirs.taken.length)
    assert.deepEqual(ours.taken.slice(0, both), theirs.taken.slice(0, both))
    // Refused by `admit`, with 501.
    const unknown = ours.methods.findIndex((method) => !PARSED_METHODS.includes(method))
    if (unknown >= 0) {
      assert.equal(theirs.taken.length, unknown)
      return
    }
    assert.ok(ours.taken.length <= theirs.taken.length, `ours takes what node:http refuses: ${theirs.fault}`)
    if (ours.fault !== '') {
      // Ours is stricter only for a reason. Behind a request to upgrade, node:http reads nothing, not even the body.
      if (theirs.fault === '' && !/upgrade/i.test(text)) assert.match(ours.fault, STRICTER)
      return
    }
    // Nothing is read behind the last request of a connection.
    if (ours.taken.some(({ headers }) => /upgrade/i.test(headers.join()))) return
    if (ours.taken.some(closesAllTheSame)) return
    if (!ENDED.test(theirs.fault)) await assertOnlyUnfinished(text)
    assert.equal(ours.taken.length, theirs.taken.length)
  }

  /** Asserts that only the unfinished last line is faulty: node:http refuses it early, and our parser once it is whole. */
  const assertOnlyUnfinished = async (text: string): Promise<void> => {
    const before = await theirOutcome([text.slice(0, text.lastIndexOf('\n') + 1)])
    assert.match(before.fault, ENDED)
    const finished = await ourOutcome([text + (text.endsWith('\r') ? '\n' : '\r\n')])
    assert.notEqual(finished.fault, '')
  }

  it('refuse the wrong beginning of a trailer at once, or when its line is whole', async () => {
    for (const beginning of [':', 'X: y\r\n ;', 'X y', 'X\r']) {
      await agree(`POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n${beginning}`, [])
    }
  })

  it('differ in a tab behind the transfer coding: node:http refuses it', async () => {
    const pieces = ['POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\t\r\n\r\n1\r\na\r\n0\r\n\r\n']
    const [ours, theirs] = await Promise.all([ourOutcome(pieces), theirOutcome(pieces)])
    assert.deepEqual([ours.taken.map(({ body }) => body), ours.fault], [['a'], ''])
    assert.deepEqual(theirs, { taken: [], fault: 'HPE_INVALID_TRANSFER_ENCODING' })
  })

  it('differ in HTTP/1.0 with close and keep-alive: node:http reads on, ours does not', async () => {
    const first = 'GET /a HTTP/1.0\r\nConnection: close\r\nConnection: keep-alive\r\n\r\n'
    const pieces = [first, 'GET /b HTTP/1.1\r\n\r\n']
    const [ours, theirs] = await Promise.all([ourOutcome(pieces), theirOutcome(pieces)])
    assert.deepEqual([ours.taken.length, ours.fault, theirs.taken.length], [1, '', 2])
  })

  for (const field of ['Content-Length: 3', 'Transfer-Encoding: gzip', 'Connection: close']) {
    it(`differ in the trailer “${field}”: node:http obeys it, ours drops it and reads on`, async () => {
      const first = 'POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n'
      const pieces = [`${first}${field}\r\n\r\n`, 'GET /a HTTP/1.1\r\n\r\n']
      const [ours, theirs] = await Promise.all([ourOutcome(pieces), theirOutcome(pieces)])
      assert.deepEqual([ours.taken.map(({ target, body }) => target + body), ours.fault], [['/ba', '/a'], ''])
      assert.notEqual(theirs.fault, '')
    })
  }

  it('read the same from what both accept, and ours accepts nothing that node:http refuses', async () => {
    const { DIFFERENTIAL_RUNS } = process.env
    // Each run has the same texts, as a new finding may be a fault of node:http. `DIFFERENTIAL_RUNS` looks for more.
    const runs =
      DIFFERENTIAL_RUNS === undefined
        ? { numRuns: 4000 * LONGER, seed: 9112 }
        : { numRuns: Number(DIFFERENTIAL_RUNS), endOnFailure: true }
    await fc.assert(
      fc.asyncProperty(fc.oneof(several, mutated), fc.array(fc.nat(1000), { maxLength: 3 }), agree),
      runs,
    )
  })
})
