import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { flatOf } from '../contract/scripted.test-support.ts'
import { type Parsed, parse } from './parsed.test-support.ts'
import { type PendingRequest, ResponseParser } from './response-parser.ts'

const OK = 'HTTP/1.1 200 OK\r\n'
const CHUNKED = `${OK}Transfer-Encoding: chunked\r\n\r\n`
const EMPTY = 'Content-Length: 0\r\n\r\n'

type Expected = Partial<Omit<Parsed, 'outcome'>> & { readonly request?: Partial<PendingRequest> }

/** Accepted responses and the result; default outcome: `whole`. */
const GOOD: Readonly<Record<string, readonly [string, Expected & { outcome?: string }]>> = {
  'a body by its length': [`${OK}Content-Length: 5\r\n\r\nhello`, { body: 'hello', keeps: true, rest: 0 }],
  'no body by its length': [`${OK}${EMPTY}`, { body: '', keeps: true }],
  'names and values as they came, without the white space around values': [
    `${OK}A:b\r\na: c \r\nX-empty:\t \r\nJ: \xf6 \t o\t\r\n${EMPTY}`,
    { headers: ['A', 'b', 'a', 'c', 'X-empty', '', 'J', '\xf6 \t o', 'Content-Length', '0'] },
  ],
  'any token as a name': [
    `${OK}!#$%&'*+-.^_\`|~09azAZ: x\r\n${EMPTY}`,
    { headers: ["!#$%&'*+-.^_`|~09azAZ", 'x', 'Content-Length', '0'] },
  ],
  'no reason': [`HTTP/1.1 299\r\n${EMPTY}`, { status: 299 }],
  'an empty reason': [`HTTP/1.1 200 \r\n${EMPTY}`, { status: 200 }],
  'a reason above ASCII': [`HTTP/1.1 500 Ori\xebntatie  x\r\n${EMPTY}`, { status: 500 }],
  'chunks with extensions and trailers': [
    `${CHUNKED}5;a=b;c="d\xe9\\" ;";e\r\nhello\r\n001\r\n!\r\n0;z\r\nT: x\r\nContent-Length: 9\r\n\r\n`,
    { body: 'hello!', headers: ['Transfer-Encoding', 'chunked'], keeps: true },
  ],
  'hexadecimal sizes in both cases': [
    `${CHUNKED}a\r\n0123456789\r\nB\r\n0123456789a\r\n0\r\n\r\n`,
    { body: '01234567890123456789a' },
  ],
  'many chunks': [`${CHUNKED}${'1\r\na\r\n'.repeat(20)}0\r\n\r\n`, { body: 'a'.repeat(20) }],
  'a coding in capitals': [`${OK}transfer-encoding:  CHUNKED\t\r\n\r\n0\r\n\r\n`, { keeps: true }],
  'a body until the end of the connection': [`${OK}\r\nall of it`, { body: 'all of it' }],
  'HTTP/1.0, never to be used again': [
    'HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx',
    { body: 'x', keeps: false },
  ],
  'Connection: close': [`${OK}Connection: x, Close\r\n${EMPTY}`, { keeps: false }],
  'Connection: closed and Proxy-Connection: close, which are something else': [
    `${OK}Connection: closed\r\nProxy-Connection: close\r\n${EMPTY}`,
    { keeps: true },
  ],
  'HEAD without a body': [`${OK}Content-Length: 9\r\n\r\n`, { request: { method: 'HEAD' }, keeps: true }],
  'HEAD without chunks': [CHUNKED, { request: { method: 'HEAD' }, keeps: true, rest: 0 }],
  'HEAD with a body all the same': [`${OK}\r\nbody`, { request: { method: 'HEAD' }, body: '', rest: 4 }],
  '204 without a body': ['HTTP/1.1 204 No\r\n\r\nbody', { body: '', rest: 4 }],
  ...Object.fromEntries(
    ['204', '304'].flatMap((status) =>
      ['Content-Length: 2', 'Transfer-Encoding: chunked'].map((framing) => [
        `${status} that announces a body (${framing}), the last of its connection`,
        [`HTTP/1.1 ${status} No\r\n${framing}\r\n\r\nhi`, { body: '', rest: 2, keeps: false }],
      ]),
    ),
  ),
  '204 and a length of 0': [`HTTP/1.1 204 No\r\n${EMPTY}`, { body: '', keeps: true }],
  'interim responses': [
    `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: a\r\n\r\n${OK}${EMPTY}`,
    {
      status: 200,
      interim: [
        { status: 100, headers: [] },
        { status: 103, headers: ['Link', 'a'] },
      ],
    },
  ],
  'an interim response that names no body': [`HTTP/1.1 100 C\r\n${EMPTY}${OK}${EMPTY}`, { status: 200 }],
  'interim responses that announce a body, on a connection that is not used again': [
    `HTTP/1.1 100 C\r\nContent-Length: 2\r\n\r\nHTTP/1.1 103 H\r\nTransfer-Encoding: chunked\r\n\r\n${OK}${EMPTY}`,
    { status: 200, body: '', keeps: false },
  ],
  'an interim response with Connection: close, which has no effect': [
    `HTTP/1.1 103 C\r\nConnection: close\r\n\r\n${OK}Content-Length: 1\r\n\r\nx`,
    { body: 'x', keeps: true },
  ],
  'a switch that was requested, and its first bytes': [
    'HTTP/1.1 101 S\r\nUpgrade: websocket\r\n\r\nbytes',
    { request: { upgrade: 'websocket' }, outcome: 'switched', rest: 5 },
  ],
  'a switch that announces a body': [
    'HTTP/1.1 101 S\r\nUpgrade: websocket\r\nContent-Length: 5\r\n\r\nbytes',
    { request: { upgrade: 'websocket' }, outcome: 'switched', rest: 5 },
  ],
  'a second response, which is left alone': [
    `${OK}Content-Length: 1\r\n\r\na${OK}${EMPTY}`,
    { body: 'a', rest: 38 },
  ],
  'an unknown status': [`HTTP/1.1 599 X\r\n${EMPTY}`, { status: 599 }],
  'a large length': [`${OK}Content-Length: 9007199254740991\r\n\r\nx`, { outcome: 'cut', body: 'x' }],
  'a length cut short': [`${OK}Content-Length: 9\r\n\r\nx`, { outcome: 'cut', body: 'x' }],
  'chunks cut short': [`${CHUNKED}3\r\nabc\r\n`, { outcome: 'cut', body: 'abc' }],
  'a last chunk without its trailers': [`${CHUNKED}0\r\n`, { outcome: 'cut' }],
  'a head cut short': [`${OK}A: b\r\n`, { outcome: 'cut', status: undefined }],
  'nothing at all': ['', { outcome: 'cut', status: undefined }],
}

const field = (text: string): string => `${OK}${text}\r\n${EMPTY}`

/** Responses that are refused, with part of the reason. */
const BAD: Readonly<Record<string, readonly [string, RegExp, Partial<PendingRequest>?]>> = {
  'another protocol': ['RTSP/1.1 200 OK\r\n\r\n', /status line/],
  'something that is no HTTP, before its line ends': ['SSH-2.0-x', /status line/],
  'a longer name': ['HTTPER/1.1 200 OK\r\n\r\n', /status line/],
  'lower case': ['http/1.1 200 OK\r\n\r\n', /status line/],
  'version 0.9': ['HTTP/0.9 200 OK\r\n\r\n', /status line/],
  'version 1.2': ['HTTP/1.2 200 OK\r\n\r\n', /status line/],
  'version 1.10': ['HTTP/1.10 200 OK\r\n\r\n', /status line/],
  'a tab for a space': ['HTTP/1.1\t200 OK\r\n\r\n', /status line/],
  'two spaces before the status': ['HTTP/1.1  200 OK\r\n\r\n', /status line/],
  'two digits': ['HTTP/1.1 20 OK\r\n\r\n', /status line/],
  'four digits': ['HTTP/1.1 2000 OK\r\n\r\n', /status line/],
  'a letter for a digit': ['HTTP/1.1 2x0 OK\r\n\r\n', /status line/],
  'a tab before the reason': ['HTTP/1.1 200\tOK\r\n\r\n', /status line/],
  'a control character in the reason': ['HTTP/1.1 200 O\x07K\r\n\r\n', /control|status line/],
  'a status below 100': ['HTTP/1.1 099 OK\r\n\r\n', /status 99/],
  'an empty line first': [`\r\n${OK}${EMPTY}`, /status line/],
  'line feeds only': ['HTTP/1.1 200 OK\nContent-Length: 0\n\n', /line feed/],
  'one bare line feed': [`${OK}A: b\nC: d\r\n${EMPTY}`, /line feed/],
  'a bare line feed that ends the head': [`${OK}A: b\r\n\nbody`, /line feed/],
  'carriage returns only': ['HTTP/1.1 200 OK\rContent-Length: 0\r\r', /control/],
  'a bare carriage return in a value': [field('A: b\rc'), /control/],
  'a carriage return before the end of a line': [field('A: b\r'), /control/],
  'a NUL in a value': [field('A: b\0c'), /control/],
  'a NUL in an unfinished line': [`${OK}A: b\0`, /control/],
  'a DEL in a value': [field('A: b\x7fc'), /control/],
  'a folded line': [field('A: b\r\n c'), /proper name/],
  'a line folded by a tab': [field('A: b\r\n\tc'), /proper name/],
  'a space before the first field': [`${OK} A: b\r\n${EMPTY}`, /proper name/],
  'a space before the colon': [field('A : b'), /proper name/],
  'a space in a name': [field('A B: c'), /proper name/],
  'a name above ASCII': [field('\xe9: c'), /proper name/],
  'no name': [field(': b'), /proper name/],
  'no colon': [field('A'), /proper name/],
  'a field with a colon beyond its line': [`${OK}A\r\n:b\r\n${EMPTY}`, /proper name/],
  'length and chunks': [`${OK}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`, /both/],
  'chunks and length': [`${OK}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n`, /both/],
  'two lengths': [`${OK}Content-Length: 1\r\ncontent-length: 2\r\n\r\nab`, /more than one Content-Length/],
  'two equal lengths': [
    `${OK}Content-Length: 1\r\nCONTENT-LENGTH: 1\r\n\r\na`,
    /more than one Content-Length/,
  ],
  'two empty lengths': [
    `${OK}Content-Length: 0\r\nContent-Length: 0\r\n\r\n`,
    /more than one Content-Length/,
  ],
  'a list of lengths': [field('Content-Length: 1, 1'), /number of bytes/],
  'a signed length': [field('Content-Length: +1'), /number of bytes/],
  'a hexadecimal length': [field('Content-Length: 0x1'), /number of bytes/],
  'an empty length': [field('Content-Length:'), /number of bytes/],
  'two numbers as a length': [field('Content-Length: 1 1'), /number of bytes/],
  'a length beyond 2^53': [field('Content-Length: 9007199254740992'), /number of bytes/],
  'another coding': [`${OK}Transfer-Encoding: gzip\r\n\r\n`, /other than chunked/],
  'a coding before chunked': [`${OK}Transfer-Encoding: gzip, chunked\r\n\r\n`, /other than chunked/],
  'chunked by two lines': [
    `${OK}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n`,
    /more than one Transfer-Encoding/,
  ],
  'no coding': [`${OK}Transfer-Encoding:\r\n\r\n`, /other than chunked/],
  'length and chunks on a response to HEAD': [
    `${OK}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n`,
    /both/,
    { method: 'HEAD' },
  ],
  'a 101 that was not requested': ['HTTP/1.1 101 S\r\nUpgrade: h2c\r\n\r\n', /101, but no upgrade/],
  'interim responses without end': [`HTTP/1.1 102 P\r\n\r\n`.repeat(33), /interim/],
  'a giant field': [`${OK}A: ${'a'.repeat(65_536)}`, /beyond 65536/],
  'giant fields': [`${OK}${`A: ${'a'.repeat(1000)}\r\n`.repeat(66)}`, /beyond 65536/],
  'many fields': [`${OK}${'A:b\r\n'.repeat(1025)}`, /more than 1024/],
  'a chunk size that is no number': [`${CHUNKED}xyz\r\n`, /malformed chunk size/],
  'no second chunk size': [`${CHUNKED}3\r\nabc\r\n\r\n`, /malformed chunk size/],
  'no chunk size': [`${CHUNKED}\r\n`, /malformed chunk size/],
  'an extension without a size': [`${CHUNKED};a\r\n`, /malformed chunk size/],
  'a negative chunk size': [`${CHUNKED}-1\r\n`, /malformed chunk size/],
  'a hexadecimal prefix': [`${CHUNKED}0x1\r\n`, /malformed chunk size/],
  'a space after a chunk size': [`${CHUNKED}1 \r\na\r\n`, /malformed chunk size/],
  'a chunk size of thirteen digits': [`${CHUNKED}0000000000001\r\n`, /too many digits/],
  'a chunk longer than its size': [`${CHUNKED}3\r\nabcdef\r\n`, /longer/],
  'a line feed after a chunk size': [`${CHUNKED}3\nabc\r\n`, /malformed chunk size/],
  'a bare carriage return after a chunk size': [`${CHUNKED}3\rabc\r\n`, /after a chunk size/],
  'a line feed after an extension': [`${CHUNKED}3;a\nabc\r\n`, /extension/],
  'a NUL in an extension': [`${CHUNKED}3;\0\r\nabc\r\n`, /extension/],
  'an extension without a name': [`${CHUNKED}3;\r\nabc\r\n`, /extension/],
  'a value without a name': [`${CHUNKED}3;=a\r\nabc\r\n`, /extension/],
  'a name without its value': [`${CHUNKED}3;a=\r\nabc\r\n`, /extension/],
  'two extensions without a name': [`${CHUNKED}3;a;;b\r\nabc\r\n`, /extension/],
  'a space in an extension': [`${CHUNKED}3; a\r\nabc\r\n`, /extension/],
  'a bare line feed in a quoted extension': [`${CHUNKED}3;a="b\nc"\r\nabc\r\n`, /extension/],
  'more behind a quoted extension': [`${CHUNKED}3;a="b"c\r\nabc\r\n`, /extension/],
  'two values of an extension': [`${CHUNKED}3;a=b=c\r\nabc\r\n`, /extension/],
  'a line feed after a chunk': [`${CHUNKED}3\r\nabc\n0\r\n\r\n`, /longer/],
  'a bare carriage return after a chunk': [`${CHUNKED}3\r\nabc\r0\r\n\r\n`, /after a chunk/],
  'a giant extension': [`${CHUNKED}3;${'a'.repeat(4100)}`, /extensions beyond/],
  'extensions on every chunk': [
    `${CHUNKED}${`1;${'a'.repeat(500)}\r\nx\r\n`.repeat(9)}`,
    /extensions beyond/,
  ],
  'giant trailers': [`${CHUNKED}0\r\n${`T: ${'a'.repeat(1000)}\r\n`.repeat(66)}`, /beyond 65536/],
  'a trailer that is no field': [`${CHUNKED}0\r\nT : x\r\n\r\n`, /proper name/],
  'a folded trailer': [`${CHUNKED}0\r\nT: x\r\n y\r\n\r\n`, /proper name/],
  'a bare line feed after the last chunk': [`${CHUNKED}0\r\n\n`, /line feed/],
}

/** Gives every single split, and one that splits everywhere. */
function splitsOf(text: string): readonly (readonly number[])[] {
  const every = Array.from({ length: text.length }, (_, at) => at)
  // A giant text is cut only where it can matter: around its lines, not within a run of one letter.
  const places = text.length < 2000 ? every : every.filter((at) => !/^aaaa$/.test(text.slice(at - 2, at + 2)))
  return [...places.map((at) => [at]), every]
}

describe('a good response', () => {
  for (const [what, [text, { request, ...expected }]] of Object.entries(GOOD)) {
    it(`with ${what} means the same however it is split`, () => {
      const whole = parse(text, [], request)
      assert.deepEqual({ ...whole, outcome: 'whole', ...expected }, whole)
      for (const ends of splitsOf(text))
        assert.deepEqual(parse(text, ends, request), whole, `split at ${ends}`)
    })
  }
})

describe('a faulty response', () => {
  for (const [what, [text, reason, request]] of Object.entries(BAD)) {
    it(`with ${what} is refused however it is split`, () => {
      for (const ends of [[], ...splitsOf(text)]) {
        const { outcome, interim, ...received } = parse(text, ends, request)
        assert.match(outcome, reason, `split at ${ends}`)
        if (!text.startsWith(CHUNKED)) assert.equal(received.status, undefined)
      }
    })
  }

  it('is refused as soon as a byte shows it, and not only when its line or its head is over', () => {
    for (const text of ['GARBAGE', 'HTTX', `${OK}A: b\0`, `${OK}A: b\rc`, 'HTTP/1.1 200 OK\n', `${OK}\0`])
      assert.notEqual(parse(text).outcome, 'cut', JSON.stringify(text))
  })
})

describe('a reader', () => {
  const [first, rest] = [`${CHUNKED}3\r\nabc\r\n`, '3\r\ndef\r\n0\r\n\r\n'].map((text) =>
    Buffer.from(text),
  ) as [Buffer, Buffer]

  /** A parser whose reader takes each piece, and then holds the body back. */
  function holdingBack() {
    const taken = { body: '' }
    const parser = new ResponseParser({
      interim() {},
      head() {},
      data(bytes, from, to) {
        taken.body += bytes.toString('latin1', from, to)
        return false
      },
    })
    parser.expect({ method: 'GET', upgrade: undefined })
    return { parser, taken }
  }

  it('that holds the body back gets no more of it before the release, and nothing is lost', () => {
    const { parser, taken } = holdingBack()
    parser.read(first, 0, first.length)
    assert.deepEqual([taken.body, parser.held, parser.phase], ['abc', true, 'body'])
    const at = parser.read(rest, 0, rest.length)
    assert.equal(at, 3)
    assert.equal(parser.read(rest, at, rest.length), at)
    parser.held = false
    // The frame after the last piece is read while that piece is held back, so the connection is free earlier.
    assert.equal(parser.read(rest, at, rest.length), rest.length)
    assert.deepEqual([taken.body, parser.phase], ['abcdef', 'whole'])
  })

  it('that holds back a body of known length, or one until the close, gets no more either', () => {
    for (const head of [`${OK}Content-Length: 6\r\n\r\n`, `${OK}\r\n`]) {
      const { parser, taken } = holdingBack()
      const [first, second] = [Buffer.from(`${head}abc`), Buffer.from('def')]
      assert.equal(parser.read(first, 0, first.length), first.length)
      assert.equal(parser.read(second, 0, 3), 0)
      parser.held = false
      assert.equal(parser.read(second, 0, 3), 3)
      assert.equal(taken.body, 'abcdef')
    }
  })

  it('gets no further call once it stops the parser, from whichever callback', () => {
    const calls: string[] = []
    const text = Buffer.from(`HTTP/1.1 103 H\r\n\r\n${first}${rest}`)
    for (const stopAt of ['interim', 'head', 'data']) {
      const note = (what: string): void => {
        calls.push(what)
        if (what === stopAt) parser.stop()
      }
      const parser: ResponseParser = new ResponseParser({
        interim: () => note('interim'),
        head: () => note('head'),
        data: () => note('data') === undefined,
      })
      parser.expect({ method: 'GET', upgrade: undefined })
      parser.read(text, 0, text.length)
      assert.equal(parser.phase, 'stopped')
      assert.equal(calls.at(-1), stopAt)
      assert.equal(calls.filter((call) => call === stopAt).length, 1)
      calls.length = 0
    }
  })

  it('gets each of several responses by itself, whatever the one before it said', () => {
    const heads: (number | string)[] = []
    const parser = new ResponseParser({
      interim() {},
      head: (status, fields) => heads.push(status, flatOf(fields).join()),
      data: () => true,
    })
    const responses = [
      `HTTP/1.0 200 OK\r\nConnection: close\r\nKeep-Alive: timeout=9\r\nContent-Length: 1\r\n\r\nx`,
      `HTTP/1.1 201 Made\r\nTransfer-Encoding: chunked\r\n\r\n1;e\r\nx\r\n0\r\nT: y\r\n\r\n`,
      `HTTP/1.1 202 Taken\r\n${EMPTY}`,
    ]
    const keeps = responses.map((text) => {
      parser.expect({ method: 'GET', upgrade: undefined })
      parser.read(Buffer.from(text), 0, text.length)
      assert.equal(parser.phase, 'whole')
      return [parser.keepsConnection, parser.keepAliveSeconds]
    })
    assert.deepEqual(keeps, [
      [false, 9],
      [true, undefined],
      [true, undefined],
    ])
    assert.deepEqual(heads.filter(Number), [200, 201, 202])
  })

  it('gets any number of responses, though the size of each is bounded', () => {
    let whole = 0
    const parser = new ResponseParser({ interim() {}, head: () => whole++, data: () => true })
    const text = `HTTP/1.1 102 P\r\n\r\n${CHUNKED}1;${'e'.repeat(500)}\r\nx\r\n0\r\nT: ${'t'.repeat(900)}\r\n\r\n`
    for (let i = 0; i < 40; i++) {
      parser.expect({ method: 'GET', upgrade: undefined })
      parser.read(Buffer.from(text), 0, text.length)
      assert.equal(parser.phase, 'whole', parser.fault)
    }
    assert.equal(whole, 40)
  })

  it('gets exactly the body that was framed, by any framing, sizes and splits', () => {
    const piece = fc.uint8Array({ minLength: 1, maxLength: 40 })
    fc.assert(
      fc.property(
        fc.array(piece, { maxLength: 6 }),
        fc.boolean(),
        fc.array(fc.nat(400)),
        (pieces, chunked, cuts) => {
          const texts = pieces.map((bytes) => Buffer.from(bytes).toString('latin1'))
          const body = texts.join('')
          const chunks = texts.map((text) => `${text.length.toString(16)}\r\n${text}\r\n`).join('')
          const text = chunked
            ? `${CHUNKED}${chunks}0\r\n\r\n`
            : `${OK}Content-Length: ${body.length}\r\n\r\n${body}`
          const ends = [...new Set(cuts.filter((cut) => cut < text.length))].sort((a, b) => a - b)
          const parsed = parse(`${text}surplus`, ends)
          assert.deepEqual([parsed.body, parsed.outcome, parsed.rest], [body, 'whole', 7])
        },
      ),
      { numRuns: 300 },
    )
  })
})

describe('what one read brings', () => {
  it('is one piece for the receiver, though the service sends each byte in a chunk', () => {
    const pieces: string[] = []
    const parser = new ResponseParser({
      interim: () => {},
      head: () => {},
      data: (bytes, from, to) => pieces.push(bytes.toString('latin1', from, to)) > 0,
    })
    parser.expect({ method: 'GET', upgrade: undefined })
    for (const text of [`${CHUNKED}${'1\r\nx\r\n'.repeat(1000)}`, '1\r\ny\r\n0\r\n\r\n']) {
      const bytes = Buffer.from(text)
      assert.equal(parser.read(bytes, 0, bytes.length), bytes.length)
    }
    assert.deepEqual([pieces, parser.phase], [['x'.repeat(1000), 'y'], 'whole'])
  })
})
