/**
 * The requests of llhttp's own suite (test/request of nodejs/llhttp, MIT) that are refused here, as facts: the name of
 * the case, the bytes, and the code of the refusal. Cases that need one of its lenient modes are among them.
 */
export const REFUSED: readonly (readonly [what: string, text: string, code: string])[] = [
  ['Not treating \\r as -', 'PUT /url HTTP/1.1\r\nConnection: keep\ralive\r\n\r\n', 'malformed_request'],
  [
    'Multiple tokens with folding, lenient',
    'GET /demo HTTP/1.1\r\nHost: example.com\r\nConnection: Something,\r\n Upgrade, ,Keep-Alive\r\nSec-WebSocket-Key2: 12998 5 Y3 1  .P00\r\nSec-WebSocket-Protocol: sample\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key1: 4 @1  46546xW%0l 1 5\r\nOrigin: http://example.com\r\n\r\nHot diggity dogg',
    'malformed_request',
  ],
  [
    'Multiple tokens with folding, LWS, and CRLF, lenient',
    'GET /demo HTTP/1.1\r\nConnection: keep-alive, \r\n upgrade\r\nUpgrade: WebSocket\r\n\r\nHot diggity dogg',
    'malformed_request',
  ],
  [
    'Invalid whitespace token with Connection header field',
    'PUT /url HTTP/1.1\r\nConnection : upgrade\r\nContent-Length: 4\r\nUpgrade: ws\r\n\r\nabcdefgh',
    'malformed_request',
  ],
  [
    'Error on Content-Length overflow',
    'PUT /url HTTP/1.1\r\nContent-Length: 1000000000000000000000\r\n',
    'malformed_request',
  ],
  [
    'Error on duplicate Content-Length',
    'PUT /url HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n',
    'malformed_request',
  ],
  [
    'Error on simultaneous Content-Length and Transfer-Encoding: identity',
    'PUT /url HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: identity\r\n\r\n',
    'invalid_framing',
  ],
  [
    'Invalid whitespace token with Content-Length header field',
    'PUT /url HTTP/1.1\r\nConnection: upgrade\r\nContent-Length : 4\r\nUpgrade: ws\r\n\r\nabcdefgh',
    'malformed_request',
  ],
  ['Spaces in Content-Length #2', 'POST / HTTP/1.1\r\nContent-Length: 4 2\r\n\r\n', 'invalid_framing'],
  ['Spaces in Content-Length #3', 'POST / HTTP/1.1\r\nContent-Length: 13 37\r\n\r\n', 'invalid_framing'],
  ['Empty Content-Length', 'POST / HTTP/1.1\r\nContent-Length:\r\n\r\n', 'invalid_framing'],
  [
    'Content-Length with CR instead of dash',
    'PUT /url HTTP/1.1\r\nContent\rLength: 003\r\n\r\nabc',
    'malformed_request',
  ],
  ['Missing CRLF-CRLF before body', 'PUT /url HTTP/1.1\r\nContent-Length: 3\r\n\rabc', 'malformed_request'],
  [
    'It should be unsafe to finish after incomplete PUT request',
    'PUT / HTTP/1.1\r\nContent-Length: 100\r\n',
    'malformed_request',
  ],
  [
    'It should be unsafe to finish inside of the header',
    'PUT / HTTP/1.1\r\nContent-Leng',
    'malformed_request',
  ],
  [
    'ICE protocol and GET method',
    'GET /music/sweet/music ICE/1.0\r\nHost: example.com\r\n\r\n',
    'malformed_request',
  ],
  [
    'ICE protocol, but not really',
    'GET /music/sweet/music IHTTP/1.0\r\nHost: example.com\r\n\r\n',
    'malformed_request',
  ],
  [
    'RTSP protocol and PUT method',
    'PUT /music/sweet/music RTSP/1.0\r\nHost: example.com\r\n\r\n',
    'malformed_request',
  ],
  ['Headers separated by CR', 'GET / HTTP/1.1\r\nFoo: 1\rBar: 2\r\n\r\n', 'malformed_request'],
  [
    'Headers separated by LF',
    'POST / HTTP/1.1\r\nHost: localhost:5000\r\nx:x\nTransfer-Encoding: chunked\r\n\r\n1\r\nA\r\n0\r\n',
    'malformed_request',
  ],
  [
    'Headers separated by dummy characters',
    'GET / HTTP/1.1\r\nConnection: close\r\nHost: a\r\n\rZGET /evil: HTTP/1.1\r\nHost: a\r\n',
    'malformed_request',
  ],
  [
    'Empty headers separated by CR',
    'POST / HTTP/1.1\r\nConnection: Close\r\nHost: localhost:5000\r\nx:\rTransfer-Encoding: chunked\r\n\r\n1\r\nA\r\n0\r\n',
    'malformed_request',
  ],
  [
    'Empty headers separated by LF',
    'POST / HTTP/1.1\r\nHost: localhost:5000\r\nx:\nTransfer-Encoding: chunked\r\n\r\n1\r\nA\r\n0\r\n',
    'malformed_request',
  ],
  ['Invalid header token #1', 'GET / HTTP/1.1\r\nFo@: Failure\r\n\r\n', 'malformed_request'],
  ['Invalid header token #2', 'GET / HTTP/1.1\r\nFoo\u0001\test: Bar\r\n\r\n', 'malformed_request'],
  ['Invalid header token #3', 'GET / HTTP/1.1\r\n: Bar\r\n\r\n', 'malformed_request'],
  [
    'Illegal header field name line folding',
    'GET / HTTP/1.1\r\nname\r\n : value\r\n\r\n',
    'malformed_request',
  ],
  [
    'Corrupted Connection header',
    'GET / HTTP/1.1\r\nHost: www.example.com\r\nConnection\r\u001b5\xc3\x95eep-Alive\r\nAccept-Encoding: gzip\r\n\r\n',
    'malformed_request',
  ],
  [
    'Corrupted header name',
    'GET / HTTP/1.1\r\nHost: www.example.com\r\nX-Some-Header\r\u001b5\xc3\x95eep-Alive\r\nAccept-Encoding: gzip\r\n\r\n',
    'malformed_request',
  ],
  [
    'Missing CR between headers',
    'GET / HTTP/1.1\r\nHost: localhost\r\nDummy: x\nContent-Length: 23\r\n\r\nGET / HTTP/1.1\r\nDummy: GET /admin HTTP/1.1\r\nHost: localhost\r\n\r\n',
    'malformed_request',
  ],
  ['Invalid HTTP version', 'GET / HTTP/5.6', 'malformed_request'],
  ['Invalid space after start line', 'GET / HTTP/1.1\r\n Host: foo', 'malformed_request'],
  [
    'Only LFs present',
    'POST / HTTP/1.1\nTransfer-Encoding: chunked\nTrailer: Baz\r\nFoo: abc\nBar: def\n\n1\nA\n1;abc\nB\n1;def=ghi\nC\n1;jkl="mno"\nD\n0\n\nBaz: ghi\n\n\\',
    'malformed_request',
  ],
  [
    'Only LFs present, lenient',
    'POST / HTTP/1.1\nTransfer-Encoding: chunked\nTrailer: Baz\r\nFoo: abc\nBar: def\n\n1\nA\n1;abc\nB\n1;def=ghi\nC\n1;jkl="mno"\nD\n0\n\nBaz: ghi\n\n',
    'malformed_request',
  ],
  [
    'Spaces before headers',
    'POST /hello HTTP/1.1\r\nHost: localhost\r\nFoo: bar\r\n Content-Length: 38\r\n\r\nGET /bye HTTP/1.1\r\nHost: localhost\r\n\r\n',
    'malformed_request',
  ],
  [
    'Control char in header value (relaxed), lenient',
    'GET /url HTTP/1.1\r\nHeader1: hello\fworld\r\n\r\n',
    'malformed_request',
  ],
  [
    'CR without LF in header value should be rejected even with relaxed flag, lenient',
    'POST / HTTP/1.1\r\nHost: localhost:5000\r\nx:\rTransfer-Encoding: chunked\r\n\r\n1\r\nA\r\n0\r\n',
    'malformed_request',
  ],
  [
    'Space after start line must still fail, lenient',
    'GET /url HTTP/1.1\r\n Header1: value\r\n',
    'malformed_request',
  ],
  ['Header value, lenient', 'GET /url HTTP/1.1\r\nHeader1: \f\r\n\r\n', 'malformed_request'],
  ['Header value', 'GET /url HTTP/1.1\r\nHeader1: \f\r\n\r\n\r\n', 'malformed_request'],
  ['Invalid HTTP version, lenient', 'GET / HTTP/5.6\r\n\r\n', 'malformed_request'],
  [
    'SOURCE request with ICE',
    'SOURCE /music/sweet/music ICE/1.0\r\nHost: example.com\r\n\r\n',
    'malformed_request',
  ],
  [
    'OPTIONS request with RTSP',
    'OPTIONS /music/sweet/music RTSP/1.0\r\nHost: example.com\r\n\r\n',
    'malformed_request',
  ],
  [
    'ANNOUNCE request with RTSP',
    'ANNOUNCE /music/sweet/music RTSP/1.0\r\nHost: example.com\r\n\r\n',
    'malformed_request',
  ],
  ['No HTTP version', 'GET /\r\n\r\n', 'malformed_request'],
  [
    'Line folding in header value with CRLF, lenient',
    'GET / HTTP/1.1\r\nLine1:   abc\r\n\tdef\r\n ghi\r\n\t\tjkl\r\n  mno \r\n\t \tqrs\r\nLine2: \t line2\t\r\nLine3:\r\n line3\r\nLine4: \r\n \r\nConnection:\r\n close\r\n\r\n',
    'malformed_request',
  ],
  [
    'Line folding in header value with LF',
    'GET / HTTP/1.1\r\nLine1:   abc\n\tdef\n ghi\n\t\tjkl\n  mno \n\t \tqrs\nLine2: \t line2\t\nLine3:\n line3\nLine4: \n \nConnection:\n close\n\n',
    'malformed_request',
  ],
  ['No LF after CR', 'GET / HTTP/1.1\rLine: 1\r\n', 'malformed_request'],
  [
    'X-SSL-Nonsense, lenient',
    'GET / HTTP/1.1\r\nX-SSL-Nonsense:   -----BEGIN CERTIFICATE-----\r\n\tMIIFbTCCBFWgAwIBAgICH4cwDQYJKoZIhvcNAQEFBQAwcDELMAkGA1UEBhMCVUsx\r\n\r\n',
    'malformed_request',
  ],
  [
    'No semicolon before chunk extensions',
    'POST /chunked_w_unicorns_after_length HTTP/1.1\r\nHost: localhost\r\nTransfer-encoding: chunked\r\n\r\n2 erfrferferf\r\naa\r\n0 rrrr\r\n\r\n',
    'malformed_request',
  ],
  [
    'No extension after semicolon',
    'POST /chunked_w_unicorns_after_length HTTP/1.1\r\nHost: localhost\r\nTransfer-encoding: chunked\r\n\r\n2;\r\naa\r\n0\r\n\r\n',
    'malformed_request',
  ],
  [
    'Unbalanced chunk extensions quoting',
    'POST /chunked_w_unicorns_after_length HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;ilovew3="abc";somuchlove="def; ghi\r\nhello\r\n6;blahblah;blah\r\n world\r\n0\r\n',
    'malformed_request',
  ],
  ['Ignoring pigeons', 'PUT /url HTTP/1.1\r\nTransfer-Encoding: pigeons\r\n\r\n', 'invalid_framing'],
  [
    'POST with Transfer-Encoding and Content-Length',
    'POST /post_identity_body_world?q=search#hey HTTP/1.1\r\nAccept: */*\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nWorld',
    'invalid_framing',
  ],
  [
    'POST with Transfer-Encoding and Content-Length, lenient',
    'POST /post_identity_body_world?q=search#hey HTTP/1.1\r\nAccept: */*\r\nTransfer-Encoding: identity\r\nContent-Length: 1\r\n\r\nWorld',
    'invalid_framing',
  ],
  [
    'POST with empty Transfer-Encoding and Content-Length, lenient',
    'POST / HTTP/1.1\r\nHost: foo\r\nContent-Length: 10\r\nTransfer-Encoding:\r\nTransfer-Encoding:\r\nTransfer-Encoding:\r\n\r\n2\r\nAA\r\n0',
    'invalid_framing',
  ],
  [
    'POST with chunked before other transfer coding names',
    'POST /post_identity_body_world?q=search#hey HTTP/1.1\r\nAccept: */*\r\nTransfer-Encoding: chunked, deflate\r\n\r\nWorld',
    'invalid_framing',
  ],
  [
    'POST with chunked and duplicate transfer-encoding',
    'POST /post_identity_body_world?q=search#hey HTTP/1.1\r\nAccept: */*\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: deflate\r\n\r\nWorld',
    'invalid_framing',
  ],
  [
    'POST with chunked as last transfer-encoding',
    'POST /post_identity_body_world?q=search#hey HTTP/1.1\r\nAccept: */*\r\nTransfer-Encoding: deflate, chunked\r\n\r\n5\r\nWorld\r\n0\r\n\r\n',
    'invalid_framing',
  ],
  [
    'POST with chunked as last transfer-encoding (multiple headers)',
    'POST /post_identity_body_world?q=search#hey HTTP/1.1\r\nAccept: */*\r\nTransfer-Encoding: deflate\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nWorld\r\n0\r\n\r\n',
    'invalid_framing',
  ],
  [
    'POST with chunkedchunked as transfer-encoding',
    'POST /post_identity_body_world?q=search#hey HTTP/1.1\r\nAccept: */*\r\nTransfer-Encoding: chunkedchunked\r\n\r\n5\r\nWorld\r\n0\r\n\r\n',
    'invalid_framing',
  ],
  [
    'Missing last-chunk',
    'PUT /url HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nfoo\r\n\r\n',
    'malformed_request',
  ],
  [
    'Validate chunk parameters',
    'PUT /url HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3 \n  \r\nfoo\r\n\r\n',
    'malformed_request',
  ],
  [
    'Invalid OBS fold after chunked value, lenient',
    'PUT /url HTTP/1.1\r\nTransfer-Encoding: chunked\r\n  abc\r\n\r\n5\r\nWorld\r\n0\r\n\r\n',
    'malformed_request',
  ],
  [
    'Chunk header not terminated by CRLF',
    'GET / HTTP/1.1\r\nHost: a\r\nConnection: close \r\nTransfer-Encoding: chunked \r\n\r\n5\r\r;ABCD\r\n34\r\nE\r\n0\r\n\r\nGET / HTTP/1.1 \r\nHost: a\r\nContent-Length: 5\r\n\r\n0\r\n',
    'malformed_request',
  ],
  [
    'Chunk header not terminated by CRLF, lenient',
    'GET / HTTP/1.1\r\nHost: a\r\nConnection: close \r\nTransfer-Encoding: chunked \r\n\r\n6\r\r;ABCD\r\n33\r\nE\r\n0\r\n\r\nGET / HTTP/1.1 \r\nHost: a\r\nContent-Length: 5\r\n0\r\n\r\n',
    'malformed_request',
  ],
  [
    'Chunk data not terminated by CRLF',
    'GET / HTTP/1.1\r\nHost: a\r\nConnection: close \r\nTransfer-Encoding: chunked \r\n\r\n5\r\nABCDE0\r\n',
    'malformed_request',
  ],
  [
    'Space after chunk header',
    'PUT /url HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\na \r\n0123456789\r\n0\r\n\r\n',
    'malformed_request',
  ],
  ['Space in URI', 'GET /foo bar/ HTTP/1.1\r\n\r\n', 'malformed_request'],
]
