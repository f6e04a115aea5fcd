/**
 * The requests of llhttp's own suite (test/request of nodejs/llhttp, MIT) as facts: the name of the case, the bytes,
 * and what becomes of them here. llhttp-refused.test-support.ts has the refused ones.
 */

/** One request, taken just as it stands. */
export const TAKEN_AS_IT_STANDS: readonly (readonly [what: string, text: string])[] = [
  ['HTTP protocol and ANNOUNCE method', 'ANNOUNCE /music/sweet/music HTTP/1.0\r\nHost: example.com\r\n\r\n'],
  ['Invalid method', 'MKCOLA / HTTP/1.1\r\n\r\n'],
  ['Setting flag', 'PUT /url HTTP/1.1\r\nConnection: keep-alive\r\n\r\n'],
  ['Setting flag on close', 'PUT /url HTTP/1.1\r\nConnection: close\r\n\r\n'],
  ['Sample', 'PUT /url HTTP/1.1\r\nConnection: close, token, upgrade, token, keep-alive\r\n\r\n'],
  ['Setting a flag and pausing', 'PUT /url HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: ws\r\n\r\n'],
  ['Content-Length with zeroes', 'PUT /url HTTP/1.1\r\nContent-Length: 003\r\n\r\nabc'],
  [
    'Content-Length with follow-up headers',
    'PUT /url HTTP/1.1\r\nContent-Length: 003\r\nOhai: world\r\n\r\nabc',
  ],
  [
    'Funky Content-Length with body',
    'GET /get_funky_content_length_body_hello HTTP/1.0\r\nconTENT-Length: 5\r\n\r\nHELLO',
  ],
  ['It should be safe to finish after GET request', 'GET / HTTP/1.1\r\n\r\n'],
  ['REPORT request', 'REPORT /test HTTP/1.1\r\n\r\n'],
  [
    'CONNECT request with CAPS',
    'CONNECT HOME0.NETSCAPE.COM:443 HTTP/1.0\r\nUser-agent: Mozilla/1.1N\r\nProxy-authorization: basic aGVsbG86d29ybGQ=\r\n\r\n',
  ],
  [
    'M-SEARCH request',
    'M-SEARCH * HTTP/1.1\r\nHOST: 239.255.255.250:1900\r\nMAN: "ssdp:discover"\r\nST: "ssdp:all"\r\n\r\n',
  ],
  [
    'PATCH request',
    'PATCH /file.txt HTTP/1.1\r\nHost: www.example.com\r\nContent-Type: application/example\r\nIf-Match: "e0023aa4e"\r\nContent-Length: 10\r\n\r\ncccccccccc',
  ],
  ['PURGE request', 'PURGE /file.txt HTTP/1.1\r\nHost: www.example.com\r\n\r\n'],
  ['SEARCH request', 'SEARCH / HTTP/1.1\r\nHost: www.example.com\r\n\r\n'],
  [
    'LINK request',
    'LINK /images/my_dog.jpg HTTP/1.1\r\nHost: example.com\r\nLink: <http://example.com/profiles/joe>; rel="tag"\r\nLink: <http://example.com/profiles/sally>; rel="tag"\r\n\r\n',
  ],
  [
    'UNLINK request',
    'UNLINK /images/my_dog.jpg HTTP/1.1\r\nHost: example.com\r\nLink: <http://example.com/profiles/sally>; rel="tag"\r\n\r\n',
  ],
  ['SOURCE request', 'SOURCE /music/sweet/music HTTP/1.1\r\nHost: example.com\r\n\r\n'],
  [
    'QUERY request',
    'QUERY /contacts HTTP/1.1\r\nHost: example.org\r\nContent-Type: example/query\r\nAccept: text/csv\r\nContent-Length: 41\r\n\r\nselect surname, givenname, email limit 10',
  ],
  ['length, paused', 'POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc'],
  ['Request with method starting with H', 'HEAD /url HTTP/1.1\r\n\r\n'],
  [
    'curl GET',
    'GET /test HTTP/1.1\r\nUser-Agent: curl/7.18.0 (i486-pc-linux-gnu) libcurl/7.18.0 OpenSSL/0.9.8g zlib/1.2.3.3 libidn/1.1\r\nHost: 0.0.0.0=5000\r\nAccept: */*\r\n\r\n',
  ],
  [
    'Firefox GET',
    'GET /favicon.ico HTTP/1.1\r\nHost: 0.0.0.0=5000\r\nUser-Agent: Mozilla/5.0 (X11; U; Linux i686; en-US; rv:1.9) Gecko/2008061015 Firefox/3.0\r\nAccept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-us,en;q=0.5\r\nAccept-Encoding: gzip,deflate\r\nAccept-Charset: ISO-8859-1,utf-8;q=0.7,*;q=0.7\r\nKeep-Alive: 300\r\nConnection: keep-alive\r\n\r\n',
  ],
  ['No headers and no body', 'GET /get_no_headers_no_body/world HTTP/1.1\r\n\r\n'],
  ['One header and no body', 'GET /get_one_header_no_body HTTP/1.1\r\nAccept: */*\r\n\r\n'],
  [
    'Apache bench GET',
    'GET /test HTTP/1.0\r\nHost: 0.0.0.0:5000\r\nUser-Agent: ApacheBench/2.3\r\nAccept: */*\r\n\r\n',
  ],
  ['Extended Characters', 'GET / HTTP/1.1\r\nTest: D\xc3\xbcsseldorf\r\n\r\n'],
  [
    '255 ASCII in header value',
    'OPTIONS /url HTTP/1.1\r\nHeader1: Value1\r\nHeader2: \xc3\xbfValue2\r\n\r\n',
  ],
  ['Quotes in URI', 'GET /with_"lovely"_quotes?foo=\\"bar\\" HTTP/1.1\r\n\r\n'],
  ['Query URL with question mark', 'GET /test.cgi?foo=bar?baz HTTP/1.1\r\n\r\n'],
  ['host:port terminated by a query string', 'GET http://hypnotoad.org:1234?hail=all HTTP/1.1\r\n\r\n'],
  ['Query URL with vertical bar character', 'GET /test.cgi?query=| HTTP/1.1\r\n\r\n'],
  ['host:port terminated by a space', 'GET http://hypnotoad.org:1234 HTTP/1.1\r\n\r\n'],
  [
    'Disallow UTF-8 in URI path in strict mode',
    'GET /\xce\xb4\xc2\xb6/\xce\xb4t/pope?q=1#narf HTTP/1.1\r\nHost: github.com\r\n\r\n',
  ],
  ['Fragment in URI', 'GET /forums/1/topics/2375?page=1#posts-17408 HTTP/1.1\r\n\r\n'],
  [
    'Underscore in hostname',
    'CONNECT home_0.netscape.com:443 HTTP/1.0\r\nUser-agent: Mozilla/1.1N\r\nProxy-authorization: basic aGVsbG86d29ybGQ=\r\n\r\n',
  ],
  ['host:port and basic auth', 'GET http://a%12:b!&*$@hypnotoad.org:1234/toto HTTP/1.1\r\n\r\n'],
]

/** Requests with other outcomes. `told`: each request as the handler gets it, its body without chunks. */
export const TAKEN: readonly (readonly [what: string, text: string, ...told: string[]])[] = [
  [
    'PRI request HTTP2',
    'PRI * HTTP/1.1\r\n\r\nSM\r\n\r\n',
    'PRI * HTTP/1.1\r\n\r\n',
    'refused: malformed_request',
  ],
  [
    'Restarting when keep-alive is explicitly',
    'PUT /url HTTP/1.1\r\nConnection: keep-alive\r\n\r\nPUT /url HTTP/1.1\r\nConnection: keep-alive\r\n\r\n',
    'PUT /url HTTP/1.1\r\nConnection: keep-alive\r\n\r\n',
    'PUT /url HTTP/1.1\r\nConnection: keep-alive\r\n\r\n',
  ],
  [
    'No restart when keep-alive is off (1.0)',
    'PUT /url HTTP/1.0\r\n\r\nPUT /url HTTP/1.1\r\n\r\n',
    'PUT /url HTTP/1.0\r\n\r\n',
  ],
  [
    'Resetting flags when keep-alive is off (1.0, lenient)',
    'PUT /url HTTP/1.0\r\nContent-Length: 0\r\n\r\nPUT /url HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n',
    'PUT /url HTTP/1.0\r\nContent-Length: 0\r\n\r\n',
  ],
  [
    'CRLF between requests, implicit keep-alive',
    'POST / HTTP/1.1\r\nHost: www.example.com\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 4\r\n\r\nq=42\r\n\r\nGET / HTTP/1.1',
    'POST / HTTP/1.1\r\nHost: www.example.com\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 4\r\n\r\nq=42',
    'refused: malformed_request',
  ],
  [
    'Setting flag on close followed by tab',
    'PUT /url HTTP/1.1\r\nConnection: close\t\r\n\r\n',
    'PUT /url HTTP/1.1\r\nConnection: close\r\n\r\n',
  ],
  [
    'CRLF between requests, explicit close',
    'POST / HTTP/1.1\r\nHost: www.example.com\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 4\r\nConnection: close\r\n\r\nq=42\r\n\r\nGET / HTTP/1.1',
    'POST / HTTP/1.1\r\nHost: www.example.com\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 4\r\nConnection: close\r\n\r\nq=42',
  ],
  [
    'CRLF between requests, explicit close followed by tab',
    'POST / HTTP/1.1\r\nHost: www.example.com\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 4\r\nConnection: close\t\r\n\r\nq=42\r\n\r\nGET / HTTP/1.1',
    'POST / HTTP/1.1\r\nHost: www.example.com\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 4\r\nConnection: close\r\n\r\nq=42',
  ],
  [
    'Multiple tokens with folding and LWS',
    'GET /demo HTTP/1.1\r\nConnection: keep-alive, upgrade\r\nUpgrade: WebSocket\r\n\r\nHot diggity dogg',
    'GET /demo HTTP/1.1\r\nConnection: keep-alive, upgrade\r\nUpgrade: WebSocket\r\n\r\n',
  ],
  [
    'Emitting part of body and pausing',
    'PUT /url HTTP/1.1\r\nConnection: upgrade\r\nContent-Length: 4\r\nUpgrade: ws\r\n\r\nabcdefgh',
    'PUT /url HTTP/1.1\r\nConnection: upgrade\r\nContent-Length: 4\r\nUpgrade: ws\r\n\r\nabcd',
  ],
  [
    'Upgrade GET request',
    'GET /demo HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nSec-WebSocket-Key2: 12998 5 Y3 1  .P00\r\nSec-WebSocket-Protocol: sample\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key1: 4 @1  46546xW%0l 1 5\r\nOrigin: http://example.com\r\n\r\nHot diggity dogg',
    'GET /demo HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nSec-WebSocket-Key2: 12998 5 Y3 1  .P00\r\nSec-WebSocket-Protocol: sample\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key1: 4 @1  46546xW%0l 1 5\r\nOrigin: http://example.com\r\n\r\n',
  ],
  [
    'Upgrade POST request',
    'POST /demo HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: HTTP/2.0\r\nContent-Length: 15\r\n\r\nsweet post bodyHot diggity dogg',
    'POST /demo HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: HTTP/2.0\r\nContent-Length: 15\r\n\r\nsweet post body',
  ],
  [
    'Spaces in Content-Length (surrounding)',
    'POST / HTTP/1.1\r\nContent-Length:  42 \r\n\r\n',
    'POST / HTTP/1.1\r\nContent-Length: 42\r\n\r\n (cut)',
  ],
  [
    'Tabs in Content-Length (surrounding)',
    'POST / HTTP/1.1\r\nContent-Length:\t42\t  \r\n\r\n',
    'POST / HTTP/1.1\r\nContent-Length: 42\r\n\r\n (cut)',
  ],
  [
    'Content-Length reset when no body is received',
    'PUT /url HTTP/1.1\r\nContent-Length: 123\r\n\r\nPOST /url HTTP/1.1\r\nContent-Length: 456\r\n\r\n',
    'PUT /url HTTP/1.1\r\nContent-Length: 123\r\n\r\nPOST /url HTTP/1.1\r\nContent-Length: 456\r\n\r\n (cut)',
  ],
  [
    'Second request header value, lenient',
    'GET /url HTTP/1.1\r\nHeader1: Okay\r\n\r\n\r\nGET /url HTTP/1.1\r\nHeader1: \f\r\n\r\n',
    'GET /url HTTP/1.1\r\nHeader1: Okay\r\n\r\n',
    'refused: malformed_request',
  ],
  [
    'CONNECT request',
    'CONNECT 0-home0.netscape.com:443 HTTP/1.0\r\nUser-agent: Mozilla/1.1N\r\nProxy-authorization: basic aGVsbG86d29ybGQ=\r\n\r\nsome data\r\nand yet even more data',
    'CONNECT 0-home0.netscape.com:443 HTTP/1.0\r\nUser-agent: Mozilla/1.1N\r\nProxy-authorization: basic aGVsbG86d29ybGQ=\r\n\r\n',
  ],
  [
    'CONNECT with body',
    'CONNECT foo.bar.com:443 HTTP/1.0\r\nUser-agent: Mozilla/1.1N\r\nProxy-authorization: basic aGVsbG86d29ybGQ=\r\nContent-Length: 10\r\n\r\nblarfcicle"',
    'CONNECT foo.bar.com:443 HTTP/1.0\r\nUser-agent: Mozilla/1.1N\r\nProxy-authorization: basic aGVsbG86d29ybGQ=\r\nContent-Length: 10\r\n\r\n',
  ],
  [
    'chunked, paused',
    'PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n',
    'PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0123456789',
  ],
  [
    'chunk extension, paused',
    'PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\na;foo=bar\r\n0123456789\r\n0\r\n\r\n',
    'PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0123456789',
  ],
  [
    'Should parse multiple events',
    'POST /aaa HTTP/1.1\r\nContent-Length: 3\r\n\r\nAAA\r\nPUT /bbb HTTP/1.1\r\nContent-Length: 4\r\n\r\nBBBB\r\nPATCH /ccc HTTP/1.1\r\nContent-Length: 5\r\n\r\nCCCC',
    'POST /aaa HTTP/1.1\r\nContent-Length: 3\r\n\r\nAAA',
    'PUT /bbb HTTP/1.1\r\nContent-Length: 4\r\n\r\nBBBB',
    'PATCH /ccc HTTP/1.1\r\nContent-Length: 5\r\n\r\nCCCC (cut)',
  ],
  [
    'Simple request',
    'OPTIONS /url HTTP/1.1\r\nHeader1: Value1\r\nHeader2:\t Value2\r\n\r\n',
    'OPTIONS /url HTTP/1.1\r\nHeader1: Value1\r\nHeader2: Value2\r\n\r\n',
  ],
  [
    'DUMBPACK',
    'GET /dumbpack HTTP/1.1\r\naaaaaaaaaaaaa:++++++++++\r\n\r\n',
    'GET /dumbpack HTTP/1.1\r\naaaaaaaaaaaaa: ++++++++++\r\n\r\n',
  ],
  ['Prefix newline', '\r\nGET /test HTTP/1.1\r\n\r\n', 'GET /test HTTP/1.1\r\n\r\n'],
  [
    'Request starting with CRLF',
    '\r\nGET /url HTTP/1.1\r\nHeader1: Value1\r\n\r\n',
    'GET /url HTTP/1.1\r\nHeader1: Value1\r\n\r\n',
  ],
  [
    'Parsing and setting flag',
    'PUT /url HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n',
    'PUT /url HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n (cut)',
  ],
  [
    'Parse chunks with lowercase size',
    'PUT /url HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n',
    'PUT /url HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0123456789',
  ],
  [
    'Parse chunks with uppercase size',
    'PUT /url HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n',
    'PUT /url HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0123456789',
  ],
  [
    'POST with Transfer-Encoding: chunked',
    'POST /post_chunked_all_your_base HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1e\r\nall your base are belong to us\r\n0\r\n\r\n',
    'POST /post_chunked_all_your_base HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nall your base are belong to us',
  ],
  [
    'Two chunks and triple zero prefixed end chunk',
    'POST /two_chunks_mult_zero_end HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n000\r\n\r\n',
    'POST /two_chunks_mult_zero_end HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nhello world',
  ],
  [
    'Trailing headers',
    'POST /chunked_w_trailing_headers HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\nVary: *\r\nContent-Type: text/plain\r\n\r\n',
    'POST /chunked_w_trailing_headers HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nhello world',
  ],
  [
    'Chunk extensions',
    'POST /chunked_w_unicorns_after_length HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;ilovew3;somuchlove=aretheseparametersfor;another=withvalue\r\nhello\r\n6;blahblah;blah\r\n world\r\n0\r\n',
    'POST /chunked_w_unicorns_after_length HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nhello world (cut)',
  ],
  [
    'Chunk extensions quoting',
    'POST /chunked_w_unicorns_after_length HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;ilovew3="I \\"love\\"; \\\\extensions\\\\";somuchlove="aretheseparametersfor";blah;foo=bar\r\nhello\r\n6;blahblah;blah\r\n world\r\n0\r\n',
    'POST /chunked_w_unicorns_after_length HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nhello world (cut)',
  ],
  [
    'Host terminated by a query string',
    'GET http://hypnotoad.org?hail=all HTTP/1.1\r\n\r\n\r\n',
    'GET http://hypnotoad.org?hail=all HTTP/1.1\r\n\r\n',
  ],
]
