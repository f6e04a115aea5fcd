import assert from 'node:assert/strict'
import { createHmac, createPublicKey, generateKeyPairSync } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { FlattenedSign } from 'jose'
import { profileOf } from '../../config/clients/signature-profiles.ts'
import { LONGER } from '../../e2e/long-runs.ts'
import {
  encode,
  freshKey,
  NOW_MS,
  NOW_SECONDS,
  publicJwk,
  signingKey,
} from '../tokens/issuer.test-support.ts'
import { judge, type Message, replaced, signBytes, type TestClient } from './signed-request.test-support.ts'

const BODY = '{"Data":{"amount":"12.50"},"é":1}'
const ISS = '0015800001041RHAAY/HQuZPIt3ipkh33Uxytox1E'
const [IAT_NAME, ISS_NAME, TAN_NAME] = ['iat', 'iss', 'tan'].map(
  (name) => `http://openbanking.org.uk/${name}`,
) as [string, string, string]
const CRITICAL = [IAT_NAME, ISS_NAME, TAN_NAME]
const RSA = signingKey('PS256', { kid: '90210ABAD' })
const UK = profileOf({ profile: 'uk-jws', iss: ISS })
const BANK: TestClient = { id: 'bank', jwks: [RSA.jwk], profile: UK }
const HEADER = {
  alg: 'PS256',
  kid: '90210ABAD',
  [IAT_NAME]: NOW_SECONDS,
  [ISS_NAME]: ISS,
  [TAN_NAME]: 'openbanking.org.uk',
  crit: CRITICAL,
}

/** A payment as a client sends it. */
function messageOf(jws: string, body = BODY): Message {
  return {
    method: 'POST',
    target: '/open-banking/v4.0/pisp/domestic-payments',
    authority: 'api.example',
    body,
    fields: [
      ['Content-Type', 'application/json; charset=utf-8'],
      ['x-jws-signature', jws],
    ],
  }
}

async function joseSigned(header: Record<string, unknown>, body = BODY): Promise<string> {
  const crit = Object.fromEntries(CRITICAL.map((name) => [name, true]))
  const signer = new FlattenedSign(Buffer.from(body)).setProtectedHeader({ ...header, alg: 'PS256' })
  const { protected: encoded, signature } = await signer.sign(RSA.privateKey, { crit })
  return `${encoded}..${signature}`
}

/** A right signature, whatever the header says. */
function signedAs(changes: Record<string, unknown>, payload = encode(BODY), key = RSA.privateKey): string {
  const header = encode(JSON.stringify({ ...HEADER, ...changes }))
  return `${header}..${signBytes(`${header}.${payload}`, key, 'PS256').toString('base64url')}`
}

const faultOf = (jws: string) => judge(messageOf(jws), [BANK]).fault ?? 'accepted'

test('what jose signs is accepted, with b64 false as before v3.1.4 and without it', async () => {
  for (const more of [
    {},
    { typ: 'JOSE' },
    { cty: 'json' },
    { cty: 'application/json' },
    { b64: false, crit: ['b64', ...CRITICAL] },
    { crit: [TAN_NAME, ISS_NAME, IAT_NAME] },
  ]) {
    const { client, fault } = judge(messageOf(await joseSigned({ ...HEADER, ...more })), [BANK])
    assert.deepEqual([client, fault], ['bank', undefined], JSON.stringify(more))
  }
  const empty = messageOf(await joseSigned(HEADER, ''), '')
  assert.equal(judge(empty, [BANK]).client, 'bank')
})

test('a header that the standard does not allow is refused, although it is signed', () => {
  assert.equal(faultOf(signedAs({})), 'accepted')
  for (const [changes, fault] of [
    [{ alg: 'RS256' }, /^unsupported: The alg/],
    [{ alg: 'none' }, /^unsupported: The alg/],
    [{ alg: ['PS256'] }, /^unsupported: The alg/],
    [{ alg: undefined }, /^unsupported: The alg/],
    [{ kid: undefined }, /has no kid/],
    [{ kid: 'other' }, /^unknown_key/],
    [{ kid: ['90210ABAD'] }, /has no kid/],
    [{ typ: 'JWT' }, /typ/],
    [{ cty: 'application/pdf' }, /cty/],
    [{ cty: ['json'] }, /cty/],
    [{ jwk: publicJwk(RSA.privateKey) }, /does not name/],
    [{ jku: 'https://mallory.example' }, /does not name/],
    [{ iat: NOW_SECONDS }, /does not name/],
    [{ crit: undefined }, /crit/],
    [{ crit: [] }, /crit/],
    [{ crit: CRITICAL.join() }, /crit/],
    [{ crit: [IAT_NAME, ISS_NAME] }, /crit/],
    [{ crit: [...CRITICAL, 'exp'] }, /crit/],
    [{ crit: [IAT_NAME, ISS_NAME, ISS_NAME] }, /crit/],
    [{ crit: [...CRITICAL, ...CRITICAL] }, /crit/],
    [{ crit: [...CRITICAL, 'b64'] }, /crit/],
    [{ b64: false }, /crit/],
    [{ b64: true }, /b64/],
    [{ b64: true, crit: [...CRITICAL, 'b64'] }, /b64/],
    [{ b64: 'false', crit: [...CRITICAL, 'b64'] }, /b64/],
    [{ b64: null }, /b64/],
    [{ [ISS_NAME]: 'another' }, /iss/],
    [{ [ISS_NAME]: undefined }, /iss/],
    [{ [TAN_NAME]: 'mallory.example' }, /tan/],
    [{ [TAN_NAME]: undefined }, /tan/],
    [{ [IAT_NAME]: String(NOW_SECONDS) }, /^malformed: .*iat/],
    [{ [IAT_NAME]: undefined }, /^malformed: .*iat/],
    [{ [IAT_NAME]: NOW_SECONDS - 301 }, /^stale/],
    [{ [IAT_NAME]: NOW_SECONDS + 11 }, /^stale/],
  ] as const)
    assert.match(faultOf(signedAs(changes)), fault, JSON.stringify(changes))
})

test('a signature that has become too old while its body came is refused', () => {
  const message = messageOf(signedAs({}))
  assert.equal(judge(message, [BANK], NOW_MS, NOW_MS + 300_000).client, 'bank')
  assert.match(judge(message, [BANK], NOW_MS, NOW_MS + 300_001).fault ?? '', /^stale/)
})

test('b64 false and the payload in base64url are never taken for each other', () => {
  const unencoded = { b64: false, crit: ['b64', ...CRITICAL] }
  const raw = Buffer.from(BODY).toString('latin1')
  assert.equal(faultOf(signedAs(unencoded, raw)), 'accepted')
  assert.match(faultOf(signedAs(unencoded)), /^mismatch/)
  assert.match(faultOf(signedAs({}, raw)), /^mismatch/)
  // The body is the text of the encoded payload.
  const jws = signedAs(unencoded, encode(BODY))
  assert.match(judge(messageOf(jws), [BANK]).fault ?? '', /^mismatch/)
})

test('no other algorithm and no other key signs for the client', () => {
  const by = (alg: string, signature: (text: string) => Buffer) => {
    const header = encode(JSON.stringify({ ...HEADER, alg }))
    return faultOf(`${header}..${signature(`${header}.${encode(BODY)}`).toString('base64url')}`)
  }
  const pem = createPublicKey(RSA.privateKey).export({ type: 'spki', format: 'pem' })
  const hmac = (text: string) => createHmac('sha256', pem).update(text).digest()
  for (const alg of ['PS256', 'HS256']) {
    assert.notEqual(by(alg, hmac), 'accepted')
    assert.notEqual(
      by(alg, (text) => signBytes(text, RSA.privateKey, 'RS256')),
      'accepted',
    )
    assert.notEqual(
      by(alg, (text) => signBytes(text, RSA.privateKey, 'PS512')),
      'accepted',
    )
  }
  assert.notEqual(
    by('none', () => Buffer.alloc(1)),
    'accepted',
  )
  assert.match(faultOf(signedAs({}).replace(/[^.]*$/, '')), /not base64url/)
  // The header is bounded, because the trail records it.
  const long = encode(JSON.stringify(HEADER) + ' '.repeat(3072))
  const signed = signBytes(`${long}.${encode(BODY)}`, RSA.privateKey, 'PS256').toString('base64url')
  assert.match(faultOf(`${long}..${signed}`), /has more than 4096 characters/)
  const pinned = { ...BANK, jwks: [{ ...RSA.jwk, alg: 'RS256' }] }
  assert.match(judge(messageOf(signedAs({})), [pinned]).fault ?? '', /not for PS256/)
  const ec = { ...BANK, jwks: [freshKey('90210ABAD').jwk] }
  assert.match(judge(messageOf(signedAs({})), [ec]).fault ?? '', /not for PS256/)
})

test('a client whose key has the name of the key of another takes nothing from the other', () => {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const mallory = (jwk: object): TestClient => ({ id: 'mallory', jwks: [jwk], profile: UK })
  const squatter = mallory(publicJwk(privateKey, { kid: '90210ABAD' }))
  assert.equal(judge(messageOf(signedAs({})), [squatter, BANK]).client, 'bank')
  assert.equal(judge(messageOf(signedAs({}, encode(BODY), privateKey)), [squatter, BANK]).client, 'mallory')
  const thief = mallory({ ...RSA.jwk, kid: 'mine' })
  assert.match(judge(messageOf(signedAs({})), [thief, BANK]).fault ?? '', /publish the same key/)
})

test('a signature that comes again is known again', () => {
  const jws = signedAs({})
  const [one, again, other] = [jws, jws, signedAs({})].map((text) => judge(messageOf(text), [BANK]).unique)
  assert.equal(one, again)
  assert.notEqual(one, other)
})

const JWS = signedAs({})
const UNENCODED = signedAs({ b64: false, crit: ['b64', ...CRITICAL] }, Buffer.from(BODY).toString('latin1'))

/** Changes, each of which makes another message. The numbers choose the place. */
const CHANGES: readonly ((message: Message, at: number, other: number) => void)[] = [
  (message, at, other) => {
    message.body = replaced(message.body, at, other)
  },
  (message, at) => {
    message.body = message.body.slice(0, at % message.body.length)
  },
  (message, at) => {
    message.body += [' ', '\n', '\0', '{}', message.body][at % 5]
  },
  (message) => {
    message.body = ` ${message.body}`
  },
  (message) => {
    message.body = JSON.stringify(JSON.parse(message.body), undefined, 1)
  },
  (message) => {
    message.body = encode(message.body)
  },
  ...[
    (jws: string, at: number, other: number) => replaced(jws, at, other),
    (jws: string, at: number) => jws.slice(0, at % jws.length) + jws.slice((at % jws.length) + 1),
    (jws: string, at: number) =>
      jws.slice(0, at % jws.length) + [' ', '\t', '=', '.', ','][at % 5] + jws.slice(at % jws.length),
    (jws: string) => jws.replace('..', `.${encode(BODY)}.`),
    (jws: string, at: number) => jws + ['=', '==', ' ', '.', '..', `, ${jws}`][at % 6],
    (jws: string) => jws.replace('..', '.'),
    (jws: string) => jws.toLowerCase(),
    (jws: string) => jws.split('.').reverse().join('.'),
    (jws: string, at: number) => {
      const parts = jws.split('.')
      const bytes = Buffer.from(parts[at % 2 === 0 ? 0 : 2] ?? '', 'base64url')
      bytes[at % bytes.length] = (bytes[at % bytes.length] ?? 0) ^ (1 << (at % 8))
      parts[at % 2 === 0 ? 0 : 2] = bytes.toString('base64url')
      return parts.join('.')
    },
    (jws: string) => `${(jws === JWS ? UNENCODED : JWS).split('.')[0]}..${jws.split('.')[2]}`,
    // Members in another order, or spelt otherwise, are other bytes.
    (jws: string) => {
      const [header = '', , signature] = jws.split('.')
      const members = Object.entries(JSON.parse(Buffer.from(header, 'base64url').toString()))
      return `${encode(JSON.stringify(Object.fromEntries(members.reverse())))}..${signature}`
    },
    (jws: string) => {
      const [header = '', , signature] = jws.split('.')
      const text = Buffer.from(header, 'base64url').toString()
      return `${encode(text.replace('{', '{"alg":"none",'))}..${signature}`
    },
  ].map((change) => (message: Message, at: number, other: number) => {
    const field = message.fields[1] as Message['fields'][number]
    field[1] = change(field[1], at, other)
  }),
  (message) => void message.fields.push([...(message.fields[1] as Message['fields'][number])]),
  (message) => void message.fields.push(['X-JWS-Signature', '']),
  (message) => void message.fields.splice(1, 1),
]

test('no changed message is accepted: its body, its header, white space, duplicates, the other b64', () => {
  fc.assert(
    fc.property(
      fc.nat(CHANGES.length - 1),
      fc.nat(4000),
      fc.nat(4000),
      fc.boolean(),
      (which, at, other, isRaw) => {
        const message = messageOf(isRaw ? UNENCODED : JWS)
        assert.equal(judge(message, [BANK]).client, 'bank')
        const before = JSON.stringify(message)
        CHANGES[which]?.(message, at, other)
        fc.pre(JSON.stringify(message) !== before)
        assert.equal(judge(message, [BANK]).client, undefined, JSON.stringify(message))
      },
    ),
    { numRuns: 1000 * LONGER },
  )
})

test('a signature is good for five minutes, and ten seconds before its time', () => {
  const at = (seconds: number) => judge(messageOf(JWS), [BANK], NOW_MS + seconds * 1000).client
  for (const seconds of [-10, 0, 300]) assert.equal(at(seconds), 'bank')
  for (const seconds of [-10.001, 300.001]) assert.equal(at(seconds), undefined)
})
