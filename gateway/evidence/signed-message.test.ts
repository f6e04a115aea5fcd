import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { FlattenedSign } from 'jose'
import { readKey } from '../auth/keys/verification-key.ts'
import type { SignatureFacts } from '../auth/signatures/presented-signatures.ts'
import { digestOf, signMessage } from '../auth/signatures/signed-request.test-support.ts'
import { freshKey, NOW_SECONDS, signingKey } from '../auth/tokens/issuer.test-support.ts'
import { LONGER } from '../e2e/long-runs.ts'
import { combinedValue } from '../edge/syntax/field.ts'
import {
  bodyFault,
  keyIn,
  readRequest,
  readResponse,
  signatureBorne,
  signatureFault,
  signatureIn,
} from './signed-message.ts'

const KEY = freshKey('bank-1')
const BODY = '{"amount":"12.50"}'
const PARAMS = `;created=${NOW_SECONDS};keyid="bank-1";tag="fapi-2-request"`
const HEAD = ['POST /pay?x=1 HTTP/1.1', 'Host: api.example', 'X-Note: one', 'x-note: two']
const SIGNED = signMessage(
  [
    ['"@method"', 'POST'],
    ['"@target-uri"', 'https://api.example/base/pay?x=1'],
    ['"content-digest"', digestOf(BODY)],
    ['"x-note"', 'one, two'],
  ],
  { key: KEY.privateKey, algorithm: 'ES256', params: PARAMS },
)
const FIELDS = [
  `Content-Digest: ${digestOf(BODY)}`,
  `Signature-Input: ${SIGNED['Signature-Input']}`,
  `Signature: ${SIGNED.Signature}`,
]
const messageOf = (lines: readonly string[], body = BODY) => Buffer.from([...lines, '', body].join('\r\n'))
const MESSAGE = messageOf([...HEAD, ...FIELDS])

const thumbprint = readKey(KEY.jwk).key?.thumbprint ?? assert.fail()
const FACTS: SignatureFacts = {
  label: 'sig',
  keyId: 'bank-1',
  thumbprint,
  algorithm: 'ES256',
  publicUrl: 'https://api.example/base',
  digest: digestOf(BODY),
  input: SIGNED['Signature-Input'].slice('sig='.length),
  value: SIGNED.Signature.slice('sig=:'.length, -1),
}
const RECORD = { type: 'SIGNER_KEY', jwk: KEY.jwk }

/** Undefined for a message that is proven. */
function faultOf(
  message: Buffer,
  facts: SignatureFacts = FACTS,
  record: object = RECORD,
): string | undefined {
  const key = keyIn({ ...record }, facts)
  if (key === undefined) return 'no key'
  const { request, fault } = readRequest(message)
  if (request === undefined) return fault
  const wrongBody = bodyFault(request, facts)
  if (wrongBody !== undefined) return wrongBody
  const borne = signatureBorne(request, facts)
  return borne.fault ?? signatureFault({ request, response: undefined }, borne.signature, { facts, key })
}

test('a message that bears the recorded signature is proven, also without Content-Length or with an absolute target', () => {
  assert.equal(faultOf(MESSAGE), undefined)
  assert.equal(faultOf(messageOf([...HEAD, ...FIELDS, `Content-Length: ${BODY.length}`])), undefined)
  assert.equal(
    faultOf(messageOf([HEAD[0]!.replace('/pay', 'http://proxy.example/pay'), ...HEAD.slice(1), ...FIELDS])),
    undefined,
  )
})

test('a message that is not a request as it was sent is a fault that says why', () => {
  for (const [message, says] of [
    [
      Buffer.from(MESSAGE.toString().replaceAll('\r\n', '\n')),
      /^its head has a line feed without its carriage return$/,
    ],
    [MESSAGE.subarray(0, 100), /^its head has no empty line at its end$/],
    [Buffer.alloc(0), /no empty line/],
    [
      messageOf([...HEAD, ...FIELDS, 'Content-Length: 18'], `${BODY}\n`),
      /^its Content-Length is 18, but 19 bytes follow its head$/,
    ],
    [
      messageOf([...HEAD, ...FIELDS, 'Content-Length: 18'], 'x'),
      /^its Content-Length is 18, but 1 byte follows its head$/,
    ],
    [
      messageOf([...HEAD, ...FIELDS, 'Content-Length: 18', 'Content-Length: 18']),
      /more than one content-length/,
    ],
    [messageOf([...HEAD, ...FIELDS, 'Transfer-Encoding: chunked']), /in chunks/],
    [messageOf(['HTTP/1.1 200 OK', ...FIELDS]), /no HTTP\/1 request line/],
  ] as const)
    assert.match(String(faultOf(message)), says)
})

test('a field that is there twice is not the field that was signed', () => {
  for (const extra of [FIELDS[0], 'X-Note: two'])
    assert.match(
      String(faultOf(messageOf([...HEAD, ...FIELDS, String(extra)]))),
      /the signed parts of the message differ/,
    )
  for (const extra of FIELDS.slice(1))
    assert.match(String(faultOf(messageOf([...HEAD, ...FIELDS, extra]))), /must be a dictionary/)
})

test('a body that was added, changed or left out does not have the recorded digest', () => {
  for (const body of [`${BODY} `, BODY.replace('1', '9'), ''])
    assert.match(String(faultOf(messageOf([...HEAD, ...FIELDS], body))), /sha-256 is not that of the body/)
  const bodiless = { ...FACTS, digest: undefined }
  assert.match(String(faultOf(MESSAGE, bodiless)), /^it has a body, but the signed message had none$/)
})

test('only a JWK whose computed thumbprint is the recorded one is the key', () => {
  const other = freshKey('bank-1')
  assert.equal(faultOf(MESSAGE, FACTS, { ...RECORD, thumbprint, jwk: other.jwk }), 'no key')
  assert.equal(faultOf(MESSAGE, FACTS, { ...RECORD, type: 'CONFIG_CHANGE' }), 'no key')
  for (const jwk of [null, undefined, [], 'x', { ...KEY.jwk, y: KEY.jwk.x }])
    assert.equal(faultOf(MESSAGE, FACTS, { ...RECORD, jwk }), 'no key')
  for (const algorithm of ['EdDSA', 'none'])
    assert.match(String(faultOf(MESSAGE, { ...FACTS, algorithm })), /or another key signed them/)
})

test('a signature of another record, or another label, is not the signature of the record', () => {
  for (const facts of [{ value: 'AAAA' }, { label: 'other' }, { input: `${FACTS.input};x` }])
    assert.match(String(faultOf(MESSAGE, { ...FACTS, ...facts })), /does not bear the signature/)
  assert.match(String(faultOf(messageOf(HEAD))), /does not bear/)
})

test('a record whose signature lacks a member has no signature', () => {
  assert.deepEqual(signatureIn({ signature: FACTS }), FACTS)
  for (const name of Object.keys(FACTS))
    assert.equal(signatureIn({ signature: { ...FACTS, [name]: 1 } }), undefined, name)
  for (const signature of [undefined, null, 'x', []]) assert.equal(signatureIn({ signature }), undefined)
})

test('a message in which a byte was changed is only proven with the same method, target, signed fields and body', () => {
  const shown = (message: Buffer) => {
    const { request } = readRequest(message)
    return (
      request && [
        request.method,
        request.target,
        request.body.toString('latin1'),
        ...['content-digest', 'x-note'].map((name) => combinedValue(request.fields, name)),
      ]
    )
  }
  const expected = shown(MESSAGE)
  fc.assert(
    fc.property(
      fc.nat(MESSAGE.length - 1),
      fc.integer({ min: 0, max: 255 }),
      fc.constantFrom('set', 'insert', 'remove'),
      (at, byte, how) => {
        const changed = Buffer.concat([
          MESSAGE.subarray(0, at),
          how === 'remove' ? Buffer.of() : Buffer.of(byte),
          MESSAGE.subarray(how === 'insert' ? at : at + 1),
        ])
        if (faultOf(changed) === undefined) assert.deepEqual(shown(changed), expected)
      },
    ),
    { numRuns: 2000 * LONGER },
  )
})

test('a detached JWS of UK Open Banking is proven with its body, and with no other', async () => {
  const { privateKey, jwk } = signingKey('PS256', { kid: 'uk-1' })
  const iat = 'http://openbanking.org.uk/iat'
  for (const b64 of [true, false]) {
    const header = { alg: 'PS256', kid: 'uk-1', [iat]: NOW_SECONDS, crit: [iat, ...(b64 ? [] : ['b64'])] }
    const signer = new FlattenedSign(Buffer.from(BODY))
    signer.setProtectedHeader(b64 ? header : { ...header, b64 })
    const { protected: input = '', signature } = await signer.sign(privateKey, { crit: { [iat]: true } })
    const lines = [...HEAD, `X-JWS-Signature: ${input}..${signature}`]
    const facts = {
      ...FACTS,
      label: 'x-jws-signature',
      thumbprint: readKey(jwk).key?.thumbprint ?? '',
      algorithm: 'PS256',
      publicUrl: '',
      input,
      value: Buffer.from(signature, 'base64url').toString('base64'),
    }
    const says = (message: Buffer, changes = {}) =>
      String(faultOf(message, { ...facts, ...changes }, { type: 'SIGNER_KEY', jwk }))
    assert.equal(says(messageOf(lines)), 'undefined')
    assert.match(says(messageOf(lines, `${BODY} `)), /^the digest sha-256 is not/)
    assert.match(
      says(messageOf(lines, `${BODY} `), { digest: digestOf(`${BODY} `) }),
      /^the signed parts of the message differ/,
    )
    assert.match(says(messageOf(HEAD)), /does not bear/)
    assert.match(says(messageOf([...lines, `X-JWS-Signature: ${input}..${signature}`])), /is no JWS/)
    assert.match(says(MESSAGE), /does not bear/)
    assert.match(says(messageOf(lines), { value: FACTS.value }), /does not bear/)
    assert.match(says(messageOf(lines), { input: 'e30' }), /does not bear/)
    assert.match(says(messageOf(lines), { algorithm: 'RS256' }), /or another key signed them/)
    const { request, fault } = readRequest(messageOf(lines))
    assert.equal(fault, undefined)
    assert.equal(signatureBorne(request!, facts).signature?.created, NOW_SECONDS)
  }
})

const GATEWAY_KEY = freshKey('gateway')
const ANSWER = '{"paid":true}'
const COMPONENTS = [
  ['"@status"', '201'],
  ['"content-digest"', digestOf(ANSWER)],
  ['"@method";req', 'POST'],
  ['"@target-uri";req', 'https://api.example/base/pay?x=1'],
  ['"content-digest";req', digestOf(BODY)],
  ['"signature";req', SIGNED.Signature],
  ['"signature-input";req', SIGNED['Signature-Input']],
] as const
const signedResponse = (components: readonly (readonly [string, string])[]) =>
  signMessage(components, {
    key: GATEWAY_KEY.privateKey,
    algorithm: 'ES256',
    params: `;created=${NOW_SECONDS};keyid="gateway";tag="fapi-2-response"`,
  })
const linesOf = (signed: typeof RESPONSE_SIGNED) => [
  'HTTP/1.1 201 Created',
  `Content-Digest: ${digestOf(ANSWER)}`,
  `Signature-Input: ${signed['Signature-Input']}`,
  `Signature: ${signed.Signature}`,
]
const RESPONSE_SIGNED = signedResponse(COMPONENTS)
const RESPONSE = linesOf(RESPONSE_SIGNED)

/** Undefined for a response that is proven. */
function responseFault(
  lines: readonly string[],
  body = ANSWER,
  message = MESSAGE,
  signed = RESPONSE_SIGNED,
): string | undefined {
  const facts: SignatureFacts = {
    ...FACTS,
    thumbprint: readKey(GATEWAY_KEY.jwk).key?.thumbprint ?? '',
    digest: digestOf(ANSWER),
    input: signed['Signature-Input'].slice('sig='.length),
    value: signed.Signature.slice('sig=:'.length, -1),
  }
  const key = keyIn({ type: 'SIGNER_KEY', jwk: GATEWAY_KEY.jwk }, facts) ?? assert.fail()
  const { request } = readRequest(message)
  const { response, fault } = readResponse(messageOf(lines, body))
  if (request === undefined || response === undefined) return fault
  const wrongBody = bodyFault(response, facts)
  if (wrongBody !== undefined) return wrongBody
  const borne = signatureBorne(response, facts)
  return borne.fault ?? signatureFault({ request, response }, borne.signature, { facts, key })
}

test('a response is proven with the request that it responds to, and not with another', () => {
  assert.equal(responseFault(RESPONSE), undefined)
  for (const message of [
    MESSAGE.toString().replace('x=1', 'x=2'),
    MESSAGE.toString().replace('POST', 'PUT'),
    MESSAGE.toString().replace('sig=:', 'sig=:AAAA'),
    String(messageOf(HEAD)),
  ])
    assert.match(
      String(responseFault(RESPONSE, ANSWER, Buffer.from(message))),
      /^(the signed parts of the message differ|the component)/,
    )
})

test("a response is not proven with a request body that the response's signature does not cover", () => {
  const forged = messageOf([...HEAD, ...FIELDS], BODY.replace('12.50', '99999'))
  assert.match(String(responseFault(RESPONSE, ANSWER, forged)), /^the digest sha-256 is not/)
  const signed = signedResponse(COMPONENTS.slice(0, 4))
  const faultOf = (body: string) => responseFault(linesOf(signed), ANSWER, messageOf(HEAD, body), signed)
  assert.match(
    String(faultOf(BODY)),
    /^the response's signature does not cover the request's body: remove that body/,
  )
  assert.equal(faultOf(''), undefined)
})

test('a response with another status, body or signature is not proven', () => {
  const [status = '', digest = '', ...rest] = RESPONSE
  assert.match(
    String(responseFault([status.replace('201', '200'), digest, ...rest])),
    /^the signed parts of the message differ/,
  )
  assert.match(String(responseFault(RESPONSE, `${ANSWER} `)), /^the digest sha-256 is not/)
  assert.match(
    String(responseFault([status, ...rest])),
    /^the component "content-digest" is not in the message$/,
  )
  assert.match(String(responseFault([status, digest])), /^the message does not bear/)
  assert.match(String(responseFault(HEAD)), /^its head has no HTTP\/1 status line$/)
  assert.match(
    String(responseFault([...RESPONSE, 'Content-Length: 9'])),
    /^its Content-Length is 9, but 13 bytes follow/,
  )
})
