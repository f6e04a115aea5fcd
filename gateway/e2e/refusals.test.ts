import assert from 'node:assert/strict'
import { STATUS_CODES } from 'node:http'
import { after, before, describe, it } from 'node:test'
import { REFUSALS } from '../refusals.ts'
import { sendBytes, statusOf } from './client.ts'
import { commonGateway, startGateway, type TestGateway } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'
import { headerOf } from './wire.ts'

interface Problem {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail: string
  readonly code: keyof typeof REFUSALS
  readonly requestId: string
}

function problemOf(response: string): Problem {
  return JSON.parse(
    Buffer.from(response.slice(response.indexOf('\r\n\r\n') + 4), 'latin1').toString('utf8'),
  ) as Problem
}

const HOST = 'Host: gateway\r\n'
const CLOSE = `${HOST}Connection: close\r\n\r\n`
const BODY = `${HOST}Content-Length: 5\r\n\r\nhello`
/** With this unfinished body, the next request would be read as a part of it. */
const UNFINISHED = `${HOST}Content-Length: 9999\r\n\r\nhello`

describe("refusals that are not the caller's doing", () => {
  it('cause one warning a second for each code, and all are counted', async () => {
    const gateway = await startGateway({
      config: { upstream: 'http://127.0.0.1:9', routes: [{ path: '/*', auth: ['none'] }] },
    })
    const startedMs = performance.now()
    for (let i = 0; i < 100; i++) {
      assert.equal(statusOf(await sendBytes(gateway.port, `GET / HTTP/1.1\r\n${CLOSE}`)), 502)
    }
    const seconds = Math.ceil((performance.now() - startedMs) / 1000)
    assert.equal(await gateway.metric('gateway_refusals_total{code="upstream_unreachable"}'), 100)
    await gateway.end()
    const warnings = gateway.process.lines.filter((line) => line.msg === 'refused')
    assert.ok(warnings.length >= 1 && warnings.length <= seconds, `${warnings.length} in ${seconds} s`)
  })
})

describe('a refusal', () => {
  let upstream: TestUpstream
  let gateway: TestGateway

  before(async () => {
    upstream = await startUpstream((_req, res) => {
      res.socket?.end('secret of the upstream')
    })
    gateway = await commonGateway({
      config: {
        upstream: upstream.url,
        routes: [
          { path: '/private', methods: ['GET'], auth: ['bearer'] },
          { path: '/scoped', auth: ['bearer'], scopes: ['admin'] },
          { path: '/broken', auth: ['none'] },
        ],
      },
    })
  })
  after(async () => {
    upstream.close()
  })

  /** The request, the status, the code, and whether the gateway closes a connection that the client would keep. */
  const cases: [string, number, string, boolean][] = [
    [`GET /a;b HTTP/1.1\r\n${HOST}\r\n`, 400, 'invalid_target', false],
    [`GET /private HTTP/1.1\r\n\r\n`, 400, 'invalid_host', true],
    [`GET /private HTTP/1.1\r\nX_A: b\r\n${HOST}\r\n`, 400, 'invalid_header', true],
    [`GET /private HTTP/1.1\r\n${HOST}X-A : b\r\n\r\n`, 400, 'malformed_request', true],
    [
      `POST /broken HTTP/1.1\r\n${HOST}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
      400,
      'invalid_framing',
      true,
    ],
    [`GET /private?access_token=x HTTP/1.1\r\n${HOST}\r\n`, 400, 'token_in_query', false],
    [`GET /private HTTP/1.1\r\n${HOST}Authorization: Bearer\r\n\r\n`, 400, 'invalid_credentials', false],
    [`GET /private HTTP/1.1\r\n${HOST}\r\n`, 401, 'missing_token', false],
    [`GET /private HTTP/1.1\r\n${HOST}Authorization: Bearer x.y.z\r\n\r\n`, 401, 'invalid_token', false],
    [`GET /private HTTP/1.1\r\n${BODY}`, 401, 'missing_token', false],
    [`GET /private HTTP/1.1\r\n${UNFINISHED}`, 401, 'missing_token', true],
    [`GET /nowhere HTTP/1.1\r\n${HOST}\r\n`, 404, 'not_found', false],
    [`PUT /nowhere HTTP/1.1\r\n${BODY}`, 404, 'not_found', false],
    [`PUT /nowhere HTTP/1.1\r\n${UNFINISHED}`, 404, 'not_found', true],
    [`PUT /private HTTP/1.1\r\n${HOST}Content-Length: 0\r\n\r\n`, 405, 'method_not_allowed', false],
    [`PUT /private HTTP/1.1\r\n${BODY}`, 405, 'method_not_allowed', false],
    [`PUT /private HTTP/1.1\r\n${UNFINISHED}`, 405, 'method_not_allowed', true],
    [`PUT /broken HTTP/1.1\r\n${HOST}Content-Length: 99999999999\r\n\r\n`, 413, 'body_too_large', true],
    [`GET /${'a'.repeat(9000)} HTTP/1.1\r\n${HOST}\r\n`, 414, 'target_too_long', false],
    [`GET /broken HTTP/1.1\r\n${HOST}\r\n`, 502, 'upstream_malformed', false],
  ]
  for (const [bytes, status, code, closes] of cases) {
    it(`${status} ${code} of ${JSON.stringify(bytes.slice(0, 90))} is a problem without private detail, and ${closes ? 'closes' : 'keeps'} the connection`, async () => {
      // The second, complete request shows whether the connection is kept.
      const response = await sendBytes(gateway.port, `${bytes}GET /last HTTP/1.1\r\n${CLOSE}`)
      const first = response.split(/(?<=\})(?=HTTP\/1\.1 )/)[0] as string
      assert.equal(statusOf(first), status, first)
      assert.equal(headerOf(first, 'content-type'), 'application/problem+json')
      const problem = problemOf(first)
      assert.deepEqual(Object.keys(problem), ['type', 'title', 'status', 'detail', 'code', 'requestId'])
      assert.equal(problem.type, `urn:countersign:problem:${code}`)
      assert.equal(problem.title, STATUS_CODES[status])
      assert.equal(problem.status, status)
      assert.equal(problem.code, code)
      assert.equal(REFUSALS[problem.code].status, status)
      assert.match(problem.detail, /^[A-Z].*[.]?$/)
      assert.equal(problem.requestId, headerOf(first, 'x-request-id'))
      assert.equal(headerOf(first, 'connection'), closes ? 'close' : 'keep-alive')
      assert.equal(response.includes('"code":"not_found"', first.length), !closes)
      assert.ok(!/secret|HPE_|ECONN|node:|Error:/.test(first))
      assert.equal(
        headerOf(first, 'www-authenticate') !== undefined,
        status === 401 || /token_in|credentials/.test(code),
      )
      assert.equal(headerOf(first, 'allow'), status === 405 ? 'GET, HEAD' : undefined)
      assert.equal((await gateway.metric(`gateway_refusals_total{code="${code}"}`)) > 0, true)
    })
  }

  it('to HEAD has the head of its problem and no body', async () => {
    const response = await sendBytes(gateway.port, `HEAD /nowhere HTTP/1.1\r\n${CLOSE}`)
    assert.equal(statusOf(response), 404)
    assert.ok(Number(headerOf(response, 'content-length')) > 100)
    assert.ok(response.endsWith('\r\n\r\n'))
  })

  it('with 401 has the challenges of RFC 6750, without an error if there were no credentials', async () => {
    const challenge = async (lines: string, path = '/private') =>
      headerOf(
        await sendBytes(gateway.port, `GET ${path} HTTP/1.1\r\n${lines}${CLOSE}`),
        'www-authenticate',
      ) ?? ''
    const realm = 'Bearer realm="api"'
    const algs = 'algs="ES256 PS256 EdDSA Ed25519"'
    const said = (error: string, text: string) => `error="${error}", error_description="${text}"`
    // RFC 6750 section 3.1: no error without credentials. RFC 9449 section 7.2: a challenge for each scheme.
    assert.equal(await challenge(''), `${realm} | DPoP ${algs}`)
    const malformed = said('invalid_request', 'The Authorization header is not well-formed')
    assert.equal(await challenge('Authorization: Bearer\r\n'), `${realm}, ${malformed} | DPoP ${algs}`)
    assert.equal(await challenge('Authorization: DPoP\r\n'), `${realm} | DPoP ${malformed}, ${algs}`)
    assert.match(
      await challenge('Authorization: Bearer x.y.z\r\n'),
      /^Bearer realm="api", error="invalid_token", error_description="[^"]+" \| DPoP algs="ES256 PS256 EdDSA Ed25519"$/,
    )
    assert.match(
      await challenge('Authorization: DPoP x.y.z\r\n'),
      /^Bearer realm="api" \| DPoP error="invalid_token", error_description="[^"]+", algs="ES256 PS256 EdDSA Ed25519"$/,
    )
    const query = said('invalid_request', 'The access token must not be in the query')
    assert.equal(
      await challenge('', '/private?access_token=x'),
      `${realm}, ${query} | DPoP ${query}, ${algs}`,
    )
    const token = await upstream.issuer.token()
    assert.match(
      await challenge(`Authorization: Bearer ${token}\r\n`, '/scoped'),
      /^Bearer realm="api", error="insufficient_scope", (?:error_description="[^"]+", )?scope="admin" \| DPoP algs/,
    )
  })

  it('has a code from a fixed list, with its status, its source and a sentence', () => {
    for (const [code, kind] of Object.entries(REFUSALS)) {
      assert.match(code, /^[a-z]+(_[a-z]+)*$/)
      assert.notEqual(STATUS_CODES[kind.status], undefined)
      assert.ok(['downstream', 'gateway', 'upstream'].includes(kind.source))
      // 501 is for a method that the caller chose.
      assert.equal(kind.source === 'downstream', kind.status < 500 || kind.status === 501)
      assert.match(kind.detail, /^[A-Z].*\.$/)
    }
  })
})
