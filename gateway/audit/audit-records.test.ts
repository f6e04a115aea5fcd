import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { ANY_CHARACTER } from '../e2e/any-character.ts'
import {
  countsOf,
  openChangeIn,
  openChangeOf,
  pairKeyOf,
  type RequestFacts,
  recoveredRecord,
  requestRecord,
  responseTo,
  startRecord,
  stopRecord,
  typeOf,
} from './audit-records.ts'
import { configChangeRecords } from './config-change-records.ts'
import { signedRecord, signerKeyRecord } from './signature-records.ts'

const facts: RequestFacts = {
  requestId: '0199a8f0-7c1e-7a3b-9d55-100000000000',
  timestamp: '2026-01-02T03:04:05.678Z',
  method: 'POST',
  path: '/api/transfer',
  userId: 'u-1',
  clientId: 'bank-b',
  ip: '203.0.113.7',
  userAgent: 'curl/8',
  gatewayId: undefined,
}
const GATEWAY_ID = '0199a8f0-7c1e-7a3b-9d55-200000000000'
const OTHER_ID = '0199a8f0-7c1e-7a3b-9d55-300000000000'
const MIDDLE =
  ',"requestId":"0199a8f0-7c1e-7a3b-9d55-100000000000","timestamp":"2026-01-02T03:04:05.678Z"' +
  ',"method":"POST","path":"/api/transfer","userId":"u-1","clientId":"bank-b","ip":"203.0.113.7","userAgent":"curl/8"'

test('API_REQUEST has its fields in the documented order and nothing else', () => {
  assert.equal(requestRecord(facts), `{"type":"API_REQUEST"${MIDDLE}}\n`)
})

test('API_RESPONSE is API_REQUEST followed by status code and duration', () => {
  const line = responseTo(requestRecord(facts), 201, 12.34567)
  assert.equal(line, `{"type":"API_RESPONSE"${MIDDLE},"statusCode":201,"duration":12.346}\n`)
})

test('the record of a refusal has a claimed client, and `throttled`, before the optional members', () => {
  const request = requestRecord({ ...facts, clientId: undefined, gatewayId: GATEWAY_ID })
  for (const [end, members] of [
    [{ refusalCode: 'limit_exceeded' }, ''],
    [{ refusalCode: 'too_many_failures' }, ',"throttled":true'],
    [{ refusalCode: 'invalid_signature', claimedClient: 'a"b' }, ',"claimedClientId":"a\\"b"'],
    [{ refusalCode: 'too_many_failures', claimedClient: 'a' }, ',"claimedClientId":"a","throttled":true'],
  ] as const) {
    const response = responseTo(request, 429, 1, undefined, end)
    assert.ok(response.endsWith(`,"statusCode":429,"duration":1${members},"gatewayId":"${GATEWAY_ID}"}\n`))
    assert.equal(pairKeyOf(response), pairKeyOf(request))
  }
})

test('a recovered API_RESPONSE has status code and duration 0 and says that it was recovered', () => {
  const line = recoveredRecord(requestRecord(facts))
  assert.equal(line, `{"type":"API_RESPONSE"${MIDDLE},"statusCode":0,"duration":0,"recovered":true}\n`)
})

/** The optional members in their order, each with a value of the right length. */
const OPTIONAL = {
  sessionId: 'Zm9vYmFyYmF6cXV4X-3456',
  interactionId: 'C770AEF3-6784-41F7-8E0E-FF5F97BDDB3A',
  traceId: '4bf92f3577b34da6a3ce929d0e0e4736',
  gatewayId: GATEWAY_ID,
}

test('the optional members that are present come last in both records, after status code and duration', () => {
  const names = Object.keys(OPTIONAL)
  for (let chosen = 0; chosen < 1 << names.length; chosen++) {
    const some = Object.fromEntries(Object.entries(OPTIONAL).filter((_, index) => chosen & (1 << index)))
    const request = requestRecord({ ...facts, ...some })
    const tail = Object.entries(some)
      .map(([name, value]) => `,"${name}":"${value}"`)
      .join('')
    assert.equal(request, `{"type":"API_REQUEST"${MIDDLE}${tail}}\n`)
    const response = responseTo(request, 201, 1)
    assert.equal(response, `{"type":"API_RESPONSE"${MIDDLE},"statusCode":201,"duration":1${tail}}\n`)
    assert.equal(
      recoveredRecord(request),
      `{"type":"API_RESPONSE"${MIDDLE},"statusCode":0,"duration":0,"recovered":true${tail}}\n`,
    )
    assert.equal(pairKeyOf(request), pairKeyOf(response))
    for (const grpcStatus of [0, 14]) {
      const ofCall = responseTo(request, 201, 1, grpcStatus)
      assert.equal(ofCall, response.replace('}', `,"grpcStatus":${grpcStatus}}`))
      assert.equal(pairKeyOf(ofCall), pairKeyOf(request))
    }
    const replayOf = 'first/1'
    const decisionId = 'a"b'
    for (const [grpcStatus, end, members] of [
      [undefined, { replayOf }, ',"replayOf":"first/1"'],
      [undefined, { decisionId, replayOf }, ',"decisionId":"a\\"b","replayOf":"first/1"'],
      [14, { decisionId }, ',"grpcStatus":14,"decisionId":"a\\"b"'],
    ] as const) {
      const ended = responseTo(request, 201, 1, grpcStatus, end)
      assert.equal(
        ended,
        response.replace('}', () => `${members}}`),
      )
      assert.equal(pairKeyOf(ended), pairKeyOf(request))
    }
  }
})

test('a user agent that looks like optional members moves nothing', () => {
  for (const [name, value] of Object.entries({
    ...OPTIONAL,
    grpcStatus: 7,
    decisionId: 'd',
    replayOf: 'first',
  })) {
    const userAgent = `x","${name}":${JSON.stringify(value)}`
    const response = JSON.parse(responseTo(requestRecord({ ...facts, userAgent }), 200, 1))
    assert.deepEqual(
      [response.userAgent, Object.keys(response).slice(-2)],
      [userAgent, ['statusCode', 'duration']],
    )
  }
})

test("requests with one request id and time are two pairs by the gateway's own ids", () => {
  const [one, other] = [GATEWAY_ID, OTHER_ID].map((gatewayId) => requestRecord({ ...facts, gatewayId }))
  assert.ok(one !== undefined && other !== undefined)
  assert.notEqual(pairKeyOf(one), pairKeyOf(other))
  for (const line of [responseTo(one, 200, 1), recoveredRecord(one), one.trimEnd()]) {
    assert.equal(pairKeyOf(line), pairKeyOf(one))
  }
  const forged = requestRecord({
    ...facts,
    userAgent: `","gatewayId":"${GATEWAY_ID}"}`,
    gatewayId: undefined,
  })
  assert.notEqual(pairKeyOf(forged), pairKeyOf(one))
})

test('userId and clientId are left out when they are unknown', () => {
  const record = JSON.parse(requestRecord({ ...facts, userId: undefined, clientId: undefined }))
  assert.deepEqual(Object.keys(record), [
    'type',
    'requestId',
    'timestamp',
    'method',
    'path',
    'ip',
    'userAgent',
  ])
})

test('a duration that is not a number at or above 0 is written as 0', () => {
  for (const durationMs of [Number.NaN, Number.POSITIVE_INFINITY, -0.5]) {
    assert.equal(JSON.parse(responseTo(requestRecord(facts), 200, durationMs)).duration, 0)
  }
})

test('a user agent of 512 characters stays, a longer one is cut to 512 with an ellipsis at the end', () => {
  const agentOf = (userAgent: string) => JSON.parse(requestRecord({ ...facts, userAgent })).userAgent
  assert.equal(agentOf('a'.repeat(512)), 'a'.repeat(512))
  assert.equal(agentOf('a'.repeat(513)), `${'a'.repeat(511)}…`)
  assert.equal(agentOf('a'.repeat(16384)), `${'a'.repeat(511)}…`)
})

test('a path of 4096 characters stays, a longer one is cut to 4096 with an ellipsis at the end', () => {
  const pathOf = (path: string) => JSON.parse(requestRecord({ ...facts, path })).path
  assert.equal(pathOf('p'.repeat(4096)), 'p'.repeat(4096))
  assert.equal(pathOf('p'.repeat(4097)), `${'p'.repeat(4095)}…`)
})

test('a cut never leaves half a surrogate pair', () => {
  const userAgent = `${'a'.repeat(510)}😀${'a'.repeat(10)}`
  assert.equal(JSON.parse(requestRecord({ ...facts, userAgent })).userAgent, `${'a'.repeat(510)}…`)
})

const anyText = fc.oneof(
  fc.string({ unit: ANY_CHARACTER, maxLength: 40 }),
  fc.string({
    unit: fc.integer({ min: 0, max: 0xff }).map((code) => String.fromCharCode(code)),
    maxLength: 40,
  }),
  fc.string({
    unit: fc.integer({ min: 0, max: 0xffff }).map((code) => String.fromCharCode(code)),
    maxLength: 40,
  }),
  fc.constantFrom(
    '"',
    '\\',
    '\n',
    '\r\n',
    '\u2028',
    '\ud800',
    '\udfff',
    '\x7f',
    '{"type":"API_REQUEST"',
    ',"method":',
  ),
)
const anyFacts: fc.Arbitrary<RequestFacts> = fc.record({
  requestId: anyText,
  timestamp: anyText,
  method: anyText,
  path: anyText,
  userId: fc.option(anyText, { nil: undefined }),
  clientId: fc.option(anyText, { nil: undefined }),
  ip: anyText,
  userAgent: anyText,
  sessionId: fc.option(fc.string({ unit: fc.constantFrom(...'aZ09-_'), minLength: 22, maxLength: 22 }), {
    nil: undefined,
  }),
  interactionId: fc.option(fc.uuid(), { nil: undefined }),
  traceId: fc.option(fc.string({ unit: fc.constantFrom(...'0f'), minLength: 32, maxLength: 32 }), {
    nil: undefined,
  }),
  gatewayId: fc.option(fc.uuid(), { nil: undefined }),
})

test('any strings survive UTF-8 in both records, and a line has one newline, at its end', () => {
  fc.assert(
    fc.property(
      anyFacts,
      fc.integer({ min: 100, max: 599 }),
      fc.double({ min: 0, max: 1e9, noNaN: true }),
      fc.option(fc.nat(16), { nil: undefined }),
      (any, status, ms, grpcStatus) => {
        const request = requestRecord(any)
        const response = responseTo(request, status, ms, grpcStatus)
        assert.equal(pairKeyOf(response), pairKeyOf(request))
        const recovered = recoveredRecord(request)
        const given = JSON.parse(JSON.stringify(any))
        const duration = Math.round(ms * 1000) / 1000
        const decode = (line: string) =>
          JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(line)))
        assert.deepEqual(decode(request), { type: 'API_REQUEST', ...given })
        const call = grpcStatus === undefined ? {} : { grpcStatus }
        assert.deepEqual(decode(response), {
          type: 'API_RESPONSE',
          ...given,
          statusCode: status,
          duration,
          ...call,
        })
        assert.deepEqual(decode(recovered), {
          type: 'API_RESPONSE',
          ...given,
          statusCode: 0,
          duration: 0,
          recovered: true,
        })
        for (const line of [request, response, recovered]) assert.equal(line.indexOf('\n'), line.length - 1)
      },
    ),
    { numRuns: 2000 },
  )
})

const anySignature = fc.record({
  label: anyText,
  keyId: anyText,
  thumbprint: anyText,
  algorithm: anyText,
  publicUrl: anyText,
  digest: fc.option(anyText, { nil: undefined }),
  input: anyText,
  value: anyText,
})

test('a signature comes last, and changes neither the pair nor what recovery writes', () => {
  fc.assert(
    fc.property(
      anyFacts,
      anySignature,
      fc.option(fc.nat(16), { nil: undefined }),
      (any, signature, grpcStatus) => {
        const request = requestRecord(any)
        const signed = signedRecord(request, signature)
        const { signature: written, ...rest } = JSON.parse(signed)
        assert.deepEqual([rest, written], [JSON.parse(request), JSON.parse(JSON.stringify(signature))])
        assert.ok(signed.endsWith('}}\n'))
        for (const response of [
          responseTo(request, 200, 1, grpcStatus),
          responseTo(request, 200, 1, grpcStatus, { decisionId: any.userAgent, replayOf: any.requestId }),
        ])
          for (const line of [request, signed, response, signedRecord(response, signature)]) {
            assert.equal(pairKeyOf(line), pairKeyOf(request))
            assert.equal(pairKeyOf(line.trimEnd()), pairKeyOf(request))
          }
        assert.equal(recoveredRecord(signed), recoveredRecord(request))
      },
    ),
    { numRuns: 2000 },
  )
})

test('AUDIT_START and AUDIT_STOP have their fields in order and leave out what does not apply', () => {
  const { timestamp } = facts
  assert.equal(
    startRecord({
      timestamp,
      version: '1.2.3',
      pid: 7,
      open: 0,
      cutBytes: 3,
      recovered: 2,
      damagedLines: 1,
      unresolved: 0,
      locked: true,
    }),
    `{"type":"AUDIT_START","timestamp":"${timestamp}","version":"1.2.3","pid":7,"open":0,"cutBytes":3,"recovered":2,"damagedLines":1,"unresolved":0,"locked":true,"format":4}\n`,
  )
  assert.equal(
    startRecord({ timestamp, pid: 7, open: 4, refused: 9, continues: '123' }),
    `{"type":"AUDIT_START","timestamp":"${timestamp}","pid":7,"open":4,"refused":9,"continues":"123","format":4}\n`,
  )
  assert.equal(
    stopRecord({ timestamp, pid: 7, open: 0, reason: 'SIGTERM' }),
    `{"type":"AUDIT_STOP","timestamp":"${timestamp}","pid":7,"open":0,"reason":"SIGTERM","format":4}\n`,
  )
})

test('the type of a line and its change to the number of open requests are found without a parser', () => {
  const request = requestRecord(facts)
  const lines = [
    request,
    responseTo(request, 200, 1),
    recoveredRecord(request),
    startRecord({ timestamp: '', pid: 1, open: 0 }),
    stopRecord({ timestamp: '', pid: 1, open: 0, reason: '' }),
    ...configChangeRecords({ timestamp: '', file: '', before: [], after: [] }),
    signerKeyRecord({ timestamp: '', clientId: 'bank', keyId: 'one', thumbprint: '', jwk: {} }),
  ]
  for (const line of lines) assert.equal(typeOf(line), JSON.parse(line).type)
  assert.deepEqual(
    lines.map((line) => openChangeOf(line)),
    [1, -1, -1, 0, 0, 0, 0],
  )
  const counts = countsOf(lines)
  assert.equal(openChangeIn(counts), -1)
  assert.deepEqual(Object.fromEntries(counts), {
    ...{ API_REQUEST: 1, API_RESPONSE: 2, AUDIT_START: 1, AUDIT_STOP: 1 },
    ...{ CONFIG_CHANGE: 1, SIGNER_KEY: 1 },
  })
})
