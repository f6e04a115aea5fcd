import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parse } from './parsed.test-support.ts'

const H = 'HTTP/1.1 200 OK\r\n'
const NO = 'HTTP/1.1 204 No content\r\n'
const CHUNKS = 'Transfer-Encoding: chunked\r\n\r\n'
const UPGRADE = 'Connection: upgrade\r\nUpgrade: h2c\r\n'
const NEXT = `${H}\r\n`

/**
 * The cases of llhttp's own suite of responses (test/response of nodejs/llhttp) as facts: the bytes, and their outcome
 * here (`whole`, `cut` or `refused`), the body, and the bytes that are left. Its lenient modes are all refused.
 */
const CASES: readonly (readonly [string, string, string, string?, number?])[] = [
  [
    'Proxy-Connection',
    `${H}Content-Length: 11\r\nProxy-Connection: close\r\n\r\nhello world`,
    'whole',
    'hello world',
  ],
  ['1.0, keep-alive, until EOF', `HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n${NEXT}`, 'whole', NEXT],
  [
    '1.0, keep-alive, 204',
    `HTTP/1.0 204 No content\r\nConnection: keep-alive\r\n\r\n${NEXT}`,
    'whole',
    '',
    19,
  ],
  ['1.1 until EOF', `${NEXT}${NEXT}`, 'whole', NEXT],
  ['1.1 with 204', `${NO}\r\n${NEXT}`, 'whole', '', 19],
  ['close, 204', `${NO}Connection: close\r\n\r\n${NEXT}`, 'whole', '', 19],
  [
    'close, length, more',
    `${H}Content-Length: 5\r\nConnection: close\r\n\r\n2ad731e3-4dcd`,
    'whole',
    '2ad73',
    8,
  ],
  ['101, length', `HTTP/1.1 101 S\r\n${UPGRADE}Content-Length: 4\r\n\r\nbodyproto`, 'refused'],
  ['101, chunks', `HTTP/1.1 101 S\r\n${UPGRADE}${CHUNKS}2\r\nbo\r\n0\r\n\r\nproto`, 'refused'],
  ['200, Upgrade', `${H}${UPGRADE}\r\nbody`, 'whole', 'body'],
  ['200, Upgrade, length', `${H}${UPGRADE}Content-Length: 4\r\n\r\nbody`, 'whole', 'body'],
  ['200, Upgrade, chunks', `${H}${UPGRADE}${CHUNKS}2\r\nbo\r\n2\r\ndy\r\n0\r\n\r\n`, 'whole', 'body'],
  ['304, length', `HTTP/1.1 304 N\r\nContent-Length: 10\r\n\r\n${NEXT}`, 'whole', '', 19],
  ['304, chunks', `HTTP/1.1 304 N\r\n${CHUNKS}${H}${CHUNKS}5\r\nhello\r\n0\r\n\r\n`, 'whole', '', 62],
  [
    '100, then 404',
    `HTTP/1.1 100 C\r\n\r\nHTTP/1.1 404 N\r\nContent-Length: 14\r\n\r\n404: Not Found\n`,
    'whole',
    '404: Not Found',
    1,
  ],
  [
    '103, then 200',
    `HTTP/1.1 103 E\r\nLink: </a>; rel=preload\r\n\r\n${H}Content-Length: 16\r\n\r\nresponse content`,
    'whole',
    'response content',
  ],
  ['no length, close', `${H}Connection: close\r\n\r\n<?xml?>\n`, 'whole', '<?xml?>\n'],
  ['Content-Length-X', `${H}Content-Length-X: 0\r\n${CHUNKS}2\r\nOK\r\n0\r\n\r\n`, 'whole', 'OK'],
  ['tabs around a length', `${H}Content-Length:\t2\t\r\n\r\nab`, 'whole', 'ab'],
  ['HTP/1.1', 'HTP/1.1 200 OK\r\n\r\n', 'refused'],
  ['HTTP/01.1', 'HTTP/01.1 200 OK\r\n\r\n', 'refused'],
  ['HTTP/11.1', 'HTTP/11.1 200 OK\r\n\r\n', 'refused'],
  ['HTTP/1.01', 'HTTP/1.01 200 OK\r\n\r\n', 'refused'],
  ['HTTP/5.6', 'HTTP/5.6 200 OK\r\n\r\n', 'refused'],
  ['tab after the version', 'HTTP/1.1\t200 OK\r\n\r\n', 'refused'],
  ['CR first', '\rHTTP/1.1\t200 OK\r\n\r\n', 'refused'],
  ['fields parted by CR', `${H}Foo: 1\rBar: 2\r\n\r\n`, 'refused'],
  ['bare CR after the status line', 'HTTP/1.1 200 OK\rContent-Length: 0\r\n\r\n', 'refused'],
  ['CR CR after the status line', 'HTTP/1.1 200 OK\r\rContent-Length: 4\r\n\r\nEvil', 'refused'],
  ['space before the first field', `${H} Host: foo\r\n\r\n`, 'refused'],
  ['two spaces before the status', 'HTTP/1.1  200 OK\r\n\r\n', 'refused'],
  ['two spaces before the reason', 'HTTP/1.1 200  OK\r\n\r\n', 'whole', ''],
  ['one digit', 'HTTP/1.1 2 OK\r\n\r\n', 'refused'],
  ['only line feeds', 'HTTP/1.1 200 OK\nContent-Length: 0\n\n', 'refused'],
  ['only line feeds, a body', 'HTTP/1.1 200 OK\nFoo: abc\n\nBODY\n', 'refused'],
  ['an extension with a value', `${H}${CHUNKS}a;foo=bar\r\n0123456789\r\n0\r\n\r\n`, 'whole', '0123456789'],
  [
    'three responses',
    `${H}Content-Length: 3\r\n\r\nAAAHTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\nBBBB`,
    'whole',
    'AAA',
    47,
  ],
  ['RTSP', 'RTSP/1.1 200 OK\r\n\r\n', 'refused'],
  ['ICE', 'ICE/1.1 200 OK\r\n\r\n', 'refused'],
  ['HTTPER', 'HTTPER/1.1 200 OK\r\n\r\n', 'refused'],
  [
    'spaces around a length',
    `HTTP/1.1 301 M\r\nX-$B-V: 1.6\r\nContent-Length:  3  \r\n\r\nabc`,
    'whole',
    'abc',
  ],
  ['a chunk of a line feed', `HTTP/1.1 301 M\r\n${CHUNKS}1  \r\n\n\r\n0\r\n\r\n`, 'refused'],
  [
    'a chunk of a line feed, without spaces',
    `HTTP/1.1 301 M\r\n${CHUNKS}1\r\n\n\r\n0\r\n\r\n`,
    'whole',
    '\n',
  ],
  ['no field, no body', 'HTTP/1.1 404 Not Found\r\n\r\n', 'whole', ''],
  ['no reason', 'HTTP/1.1 301\r\n\r\n', 'whole', ''],
  ['an empty reason', 'HTTP/1.1 200 \r\n\r\n', 'whole', ''],
  [
    'underscore in a name',
    `${H}Content-Length: 0\r\nDCLK_imp: v7;x;~okv=;dcmt=text/xml;;~cs=o\r\n\r\n`,
    'whole',
    '',
  ],
  [
    'an empty value',
    'HTTP/1.0 301 M\r\nPragma: \r\nLocation: http://a/\r\nContent-Length: 0\r\n\r\n',
    'whole',
    '',
  ],
  [
    'names with dots and underscores',
    `${H}.et-Cookie: a=1; path=/\r\n_onnection: Keep-Alive\r\n${CHUNKS}0\r\n\r\n`,
    'whole',
    '',
  ],
  [
    'a space in a name',
    `${H}en-US Content-Type: text/xml\r\nContent-Length: 16\r\n\r\n<xml>hello</xml>`,
    'refused',
  ],
  ['a reason above ASCII', 'HTTP/1.1 500 Ori\xc3\xabntatie\r\nContent-Length: 0\r\n\r\n', 'whole', ''],
  ['HTTP/0.9', 'HTTP/0.9 200 OK\r\n\r\n', 'refused'],
  ['neither length nor chunks', `${H}Content-Type: text/plain\r\n\r\nhello world`, 'whole', 'hello world'],
  ['CR LF first, which llhttp skips', `\r\n${H}Content-Length: 0\r\n\r\n`, 'refused'],
  [
    'spaces after a chunk size',
    `${H}${CHUNKS}25  \r\nThis is the data in the first chunk\r\n\r\n0\r\n\r\n`,
    'refused',
  ],
  ['nothing of a chunk', `${H}${CHUNKS}`, 'cut', ''],
]

describe("llhttp's cases of responses", () => {
  for (const [what, text, expected, body = '', rest = 0] of CASES) {
    it(`${what}: ${expected}, however it is split`, () => {
      const every = Array.from({ length: text.length }, (_, at) => at)
      for (const ends of [[], every, ...every.map((at) => [at])]) {
        const parsed = parse(text, ends)
        const outcome = ['whole', 'cut'].includes(parsed.outcome) ? parsed.outcome : 'refused'
        assert.equal(outcome, expected, parsed.outcome)
        if (expected !== 'refused') assert.deepEqual([parsed.body, parsed.rest], [body, rest])
      }
    })
  }
})
