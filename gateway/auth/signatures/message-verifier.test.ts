import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import fc from 'fast-check'
import { calculateJwkThumbprint } from 'jose'
import { profileOf } from '../../config/clients/signature-profiles.ts'
import { LONGER } from '../../e2e/long-runs.ts'
import { Field } from '../../edge/syntax/field.ts'
import type { Algorithm } from '../keys/signature.ts'
import { freshKey, NOW_MS, NOW_SECONDS, signingKey } from '../tokens/issuer.test-support.ts'
import { readSignatures } from './signature-fields.ts'
import {
  digestOf,
  judge,
  type Message,
  replaced,
  signMessage,
  type TestClient,
} from './signed-request.test-support.ts'

const BODY = '{"amount":"12.50"}'
const PARAMS = `;created=${NOW_SECONDS};keyid="bank-key";tag="fapi-2-request"`
const FAPI = profileOf({ profile: 'fapi-2' })
const ES256 = freshKey('bank-key')
const OTHER = freshKey('other-key')

const signerOf = (id: string, jwks: readonly object[]): TestClient => ({ id, jwks, profile: FAPI })
const BANK = signerOf('bank', [ES256.jwk])
const MALLORY = signerOf('mallory', [OTHER.jwk])

const COMPONENTS = [
  ['"@method"', 'POST'],
  ['"@target-uri"', 'https://api.example/pay//now?to=%41&amount=1'],
  ['"authorization"', 'Bearer a.b.c'],
  ['"content-digest"', digestOf(BODY)],
  ['"content-type"', 'application/json'],
  ['"x-note"', 'one, two'],
] as const
const WRITTEN = signMessage(COMPONENTS, { key: ES256.privateKey, algorithm: 'ES256', params: PARAMS })

const goodMessage = (signature: Record<string, string> = WRITTEN): Message => ({
  method: 'POST',
  target: '/pay//now?to=%41&amount=1',
  authority: 'api.example',
  body: BODY,
  fields: [
    ['Authorization', 'Bearer a.b.c'],
    ['Content-Digest', digestOf(BODY)],
    ['Content-Type', 'application/json'],
    ['X-Note', 'one'],
    ['X-Note', 'two'],
    ...Object.entries(signature),
  ],
})

interface Terms {
  readonly signers?: readonly TestClient[]
  readonly nowMs?: number
}

/** Undefined for a request that is accepted. */
function refusalOf(message: Message, { signers = [BANK], nowMs = NOW_MS }: Terms = {}): string | undefined {
  return judge(message, signers, nowMs).fault
}

test('a request that is signed as fapi-2 wants it is accepted', () => {
  assert.equal(refusalOf(goodMessage()), undefined)
})

test('each algorithm is accepted with its name in alg, and ES256, EdDSA and PS256 also without alg', () => {
  for (const [algorithm, alg, members] of [
    ['ES256', undefined, {}],
    ['EdDSA', undefined, {}],
    ['PS256', undefined, {}],
    ['PS256', undefined, { alg: undefined }],
    ['ES256', 'ecdsa-p256-sha256', {}],
    ['EdDSA', 'ed25519', { alg: 'Ed25519' }],
    ['PS512', 'rsa-pss-sha512', {}],
    ['PS512', 'rsa-pss-sha512', { alg: undefined }],
  ] as const) {
    const { privateKey: key, jwk } = signingKey(algorithm, { kid: 'bank-key', ...members })
    const params = PARAMS + (alg === undefined ? '' : `;alg="${alg}"`)
    const signers = [signerOf('bank', [JSON.parse(JSON.stringify(jwk))])]
    assert.equal(
      refusalOf(goodMessage(signMessage(COMPONENTS, { key, algorithm, params })), { signers }),
      undefined,
    )
  }
})

test('an alg that is not that of the key, unknown, or symmetric is refused', () => {
  for (const [algorithm, alg, members] of [
    ['EdDSA', 'ecdsa-p256-sha256', {}],
    ['ES256', 'ed25519', {}],
    ['PS256', 'rsa-pss-sha512', {}],
    ['PS512', 'rsa-pss-sha512', { alg: 'PS256' }],
    ['PS512', undefined, {}],
    ['RS256', undefined, {}],
    ['RS256', 'rsa-v1_5-sha256', {}],
    ['RS256', 'rsa-pss-sha512', { alg: undefined }],
    ['ES256', 'hmac-sha256', {}],
    ['ES256', 'ES256', {}],
    ['ES256', 'none', {}],
    ['ES256', '', {}],
    ['ES256', '__proto__', {}],
  ] as const) {
    const { privateKey: key, jwk } = signingKey(algorithm, { kid: 'bank-key', ...members })
    const params = PARAMS + (alg === undefined ? '' : `;alg="${alg}"`)
    const signers = [signerOf('bank', [JSON.parse(JSON.stringify(jwk))])]
    const message = goodMessage(signMessage(COMPONENTS, { key, algorithm, params }))
    assert.match(
      refusalOf(message, { signers }) ?? 'accepted',
      /^(unsupported|mismatch)/,
      `${algorithm} ${alg}`,
    )
  }
})

test('a signature over less than the profile wants is refused, whatever it is', () => {
  const signed = (components: typeof COMPONENTS | readonly (readonly [string, string])[], params = PARAMS) =>
    refusalOf(goodMessage(signMessage(components, { key: ES256.privateKey, algorithm: 'ES256', params })))
  for (const missing of ['"@method"', '"@target-uri"', '"authorization"'])
    assert.equal(
      signed(COMPONENTS.filter(([component]) => component !== missing)),
      `uncovered: The signature must cover ${missing}`,
    )
  assert.equal(
    signed(COMPONENTS.filter(([component]) => component !== '"content-digest"')),
    'uncovered: The signature must cover "content-digest", because the request has a body',
  )
  assert.match(signed([]) ?? '', /^uncovered/)
  // One member of the digest, or the path alone, is not enough.
  const [method, , authorization] = COMPONENTS
  assert.match(signed([method, ['"@path"', '/pay//now'], authorization]) ?? '', /cover "@target-uri"/)
  const digest = /:.*:/.exec(digestOf(BODY))?.[0] ?? ''
  const member = [['"content-digest";key="sha-256"', digest] as const]
  const rest = COMPONENTS.filter(([component]) => component !== '"content-digest"')
  assert.equal(
    signed([...rest, ...member]),
    'uncovered: The signature must cover "content-digest", because the request has a body',
  )
  for (const params of [
    `;keyid="bank-key";tag="fapi-2-request"`,
    `;created=${NOW_SECONDS}.0;keyid="bank-key";tag="fapi-2-request"`,
    `;created="${NOW_SECONDS}";keyid="bank-key";tag="fapi-2-request"`,
    `;created=${NOW_SECONDS};keyid="bank-key"`,
    `;created=${NOW_SECONDS};keyid="bank-key";tag="fapi-2-response"`,
    `;created=${NOW_SECONDS};keyid=bank-key;tag="fapi-2-request"`,
    `;created=${NOW_SECONDS};tag="fapi-2-request"`,
  ])
    assert.notEqual(signed(COMPONENTS, params), undefined, params)
})

test('dpop and an idempotency key must be covered where they are sent', () => {
  for (const name of ['dpop', 'idempotency-key']) {
    const message = goodMessage()
    message.fields.push([name, 'x.y.z'])
    assert.equal(refusalOf(message), `uncovered: The signature must cover "${name}"`)
  }
})

test('a component may not be there twice, in whatever order its parameters are', () => {
  const twice = (one: string, other: string) =>
    readSignatures([
      new Field('Signature-Input', `sig=(${one} ${other})`),
      new Field('Signature', 'sig=:AA==:'),
    ])
  assert.match(String(twice('"@method"', '"@method"')), /twice/)
  assert.match(String(twice('"x";sf;key="a"', '"x";key="a";sf')), /twice/)
  assert.equal(typeof twice('"x";key="a"', '"x";key="b"'), 'object')
})

test('a signature is accepted for 60 s, 10 s before its time, and not once it has expired', () => {
  const at = (seconds: number, params = PARAMS) =>
    refusalOf(goodMessage(signMessage(COMPONENTS, { key: ES256.privateKey, algorithm: 'ES256', params })), {
      nowMs: NOW_MS + seconds * 1000,
    })
  for (const seconds of [-10, 0, 60]) assert.equal(at(seconds), undefined)
  for (const seconds of [-10.001, 60.001, 86_400]) assert.match(at(seconds) ?? '', /^stale/)
  const expiring = `${PARAMS};expires=${NOW_SECONDS + 5}`
  assert.equal(at(4.999, expiring), undefined)
  assert.match(at(5, expiring) ?? '', /^stale: The signature has expired/)
  const good = goodMessage(WRITTEN)
  assert.equal(judge(good, [BANK], NOW_MS, NOW_MS + 60_000).client, 'bank')
  assert.match(judge(good, [BANK], NOW_MS, NOW_MS + 60_001).fault ?? '', /^stale/, 'when its body came')
})

test('nobody becomes this client by the key of another, even under the same name', () => {
  const by = (keyid: string, key = OTHER.privateKey) => {
    const params = PARAMS.replace('bank-key', keyid)
    return goodMessage(signMessage(COMPONENTS, { key, algorithm: 'ES256', params }))
  }
  const both = [BANK, MALLORY]
  assert.match(refusalOf(by('bank-key'), { signers: both }) ?? '', /^mismatch/)
  assert.match(refusalOf(by('other-key'), { signers: [BANK] }) ?? '', /^unknown_key/)
  assert.equal(refusalOf(by('other-key'), { signers: both }), undefined)
  // Mallory publishes a key of her own under the name of the bank's key. She is still taken for Mallory.
  const squatter = signerOf('mallory', [{ ...OTHER.jwk, kid: 'bank-key' }])
  assert.equal(judge(by('bank-key'), [BANK, squatter]).client, 'mallory')
  // She publishes the bank's own key. Then a signature of the bank proves nobody.
  const thief = signerOf('mallory', [ES256.jwk])
  assert.match(refusalOf(goodMessage(), { signers: [thief, BANK] }) ?? '', /publish the same key/)
  // She may publish it under another name, and some forms do not sign the name.
  const renamed = signerOf('mallory', [{ ...ES256.jwk, kid: 'my-key' }])
  assert.match(refusalOf(goodMessage(), { signers: [renamed, BANK] }) ?? '', /publish the same key/)
})

test('of several signatures a good one counts, and one without a value spoils all', () => {
  const one = { key: ES256.privateKey, algorithm: 'ES256' as Algorithm, params: PARAMS }
  const proxy = signMessage([['"@method"', 'POST']], {
    ...one,
    params: ';created=1;keyid="proxy"',
    label: 'proxy',
  })
  const join = (other: Record<string, string>) =>
    Object.fromEntries(Object.entries(WRITTEN).map(([name, value]) => [name, `${other[name]}, ${value}`]))
  assert.equal(refusalOf(goodMessage(join(proxy))), undefined)
  const message = goodMessage()
  message.fields.push(['Signature-Input', 'proxy=("@method")'])
  assert.match(refusalOf(message) ?? '', /do not name the same signatures/)
})

test('an ECDSA signature with its second half negated counts as a replay', () => {
  const order = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n
  const bytes = Buffer.from(/:(.*):/.exec(WRITTEN.Signature)?.[1] ?? '', 'base64')
  const negated = (order - BigInt(`0x${bytes.toString('hex', 32)}`)).toString(16).padStart(64, '0')
  const twin = Buffer.concat([bytes.subarray(0, 32), Buffer.from(negated, 'hex')]).toString('base64')
  const [one, other] = [WRITTEN.Signature, `sig=:${twin}:`].map(
    (Signature) => judge(goodMessage({ ...WRITTEN, Signature }), [BANK]).unique,
  )
  assert.ok(one !== undefined)
  assert.equal(one, other)
})

/** Changes, each of which makes another message. The numbers choose the place. */
const CHANGES: readonly ((message: Message, at: number, other: number) => Terms | undefined)[] = [
  (message, at) => set(message, { method: ['GET', 'PUT', 'post', 'POST ', 'DELETE'][at % 5] as string }),
  (message, at, other) => set(message, { target: replaced(message.target, at, other) }),
  (message) => set(message, { target: message.target.replace('%41', 'A') }),
  (message) => set(message, { target: message.target.replace('//', '/') }),
  (message) => set(message, { target: `${message.target}&amount=1` }),
  (message, at, other) => set(message, { authority: replaced(message.authority, at, other) }),
  (message, at, other) => set(message, { body: replaced(message.body, at, other) }),
  (message) => set(message, { body: `${message.body} ` }),
  (message) => set(message, { body: '' }),
  // A covered field is changed, doubled or taken away, or has other white space or another order.
  (message, at, other) => changeField(message, at, (value) => replaced(value, other, at)),
  (message, at) => {
    const field = message.fields[at % 5]
    if (field !== undefined) message.fields.push([...field])
    return undefined
  },
  (message, at) => void message.fields.splice(at % 5, 1),
  (message, at) => changeField(message, at, (value) => ` ${value}`),
  (message) => void message.fields.splice(3, 2, ['X-Note', 'two'], ['X-Note', 'one']),
  (message) => void message.fields.splice(3, 2, ['X-Note', 'one,two']),
  // Other components or parameters are signed.
  (message, at) => changeInput(message, (components) => components.splice(at % components.length, 1)),
  (message, at) =>
    changeInput(message, (components) => components.splice(at % 6, 0, components[at % 6] as string)),
  (message, at, other) =>
    changeInput(message, (components) => {
      const [one] = components.splice(at % 6, 1)
      components.splice((at + 1 + (other % 5)) % 6, 0, one as string)
    }),
  (message, at) =>
    changeInput(message, (components) =>
      components.splice(at % 6, 0, ['"@path"', '"x-none"', '"host"'][at % 3] as string),
    ),
  (message, at) => changeInput(message, (components) => components.splice(at % 6, 1, '"X-Note"')),
  (message, at) =>
    changeInput(message, (components) => {
      const one = components[at % 6] as string
      components[at % 6] = one + [';sf', ';bs', ';req', ';tr', ';key="a"', ';x'][at % 6]
    }),
  ...[
    [';keyid="bank-key"', ';keyid="other-key"'],
    [';keyid', ';created=1;keyid'],
    [`created=${NOW_SECONDS}`, `created=${NOW_SECONDS - 1}`],
    [`created=${NOW_SECONDS}`, `created=${NOW_SECONDS}.0`],
    ['fapi-2-request"', 'fapi-2-request";alg="ecdsa-p256-sha256"'],
    ['fapi-2-request"', 'fapi-2-request";nonce="n"'],
    ['fapi-2-request"', 'fapi-2-request";expires=9999999999'],
    ['fapi-2-request"', 'fapi-2-request";other'],
    [';tag="fapi-2-request"', ''],
    [`;created=${NOW_SECONDS};keyid="bank-key"`, `;keyid="bank-key";created=${NOW_SECONDS}`],
    ['sig=', 'sig1='],
    [')', ' )x'],
    ['" "', '""'],
    ['sig=(', 'sig=('.toUpperCase()],
  ].map(([from = '', to = '']) => (message: Message) => {
    const input = message.fields.at(-2) as Message['fields'][number]
    input[1] = input[1].replace(from, to)
    return undefined
  }),
  // The signature, the signer or the time is another.
  (message, at, other) => {
    const signature = message.fields.at(-1) as Message['fields'][number]
    const bytes = Buffer.from(signature[1].slice(5, -1), 'base64')
    bytes[at % bytes.length] = (bytes[at % bytes.length] ?? 0) ^ (1 << (other % 8))
    signature[1] = `sig=:${bytes.toString('base64')}:`
    return undefined
  },
  (message, at) => {
    const signature = message.fields.at(-1) as Message['fields'][number]
    signature[1] = [
      'sig=::',
      'sig=:AA==:',
      `${signature[1]};x`,
      `${signature[1]}, ${signature[1]}`,
      `${signature[1]};x, b=:AA==:`,
    ][at % 5] as string
    return undefined
  },
  (message, at) => void message.fields.splice(-1 - (at % 2), 1),
  (message, at) =>
    void message.fields.push([...(message.fields.at(-1 - (at % 2)) as Message['fields'][number])]),
  () => ({ signers: [MALLORY] }),
  () => ({ signers: [signerOf('bank', [{ ...OTHER.jwk, kid: 'bank-key' }])] }),
  (_message, at) => ({ nowMs: NOW_MS + 60_001 + at }),
  (_message, at) => ({ nowMs: NOW_MS - 10_001 - at }),
]

function set(message: Message, changes: Partial<Message>): undefined {
  Object.assign(message, changes)
}

function changeField(message: Message, at: number, change: (value: string) => string): undefined {
  const field = message.fields[at % 5] as Message['fields'][number]
  field[1] = change(field[1])
}

function changeInput(message: Message, change: (components: string[]) => void): undefined {
  const input = message.fields.at(-2) as Message['fields'][number]
  const [, inside = '', params = ''] = /\((.*)\)(.*)/.exec(input[1]) ?? []
  const components = inside.split(' ')
  change(components)
  input[1] = `sig=(${components.join(' ')})${params}`
}

test('no changed message is accepted: its components, their order, white space and number, the key, the time', () => {
  fc.assert(
    fc.property(fc.nat(CHANGES.length - 1), fc.nat(4000), fc.nat(4000), (which, at, other) => {
      const message = goodMessage()
      const before = JSON.stringify(message)
      const terms = CHANGES[which]?.(message, at, other)
      fc.pre(terms !== undefined || JSON.stringify(message) !== before)
      assert.notEqual(refusalOf(message, terms), undefined, JSON.stringify(message))
    }),
    { numRuns: 1000 * LONGER },
  )
})

test('white space that a structured field may have changes nothing', () => {
  const message = goodMessage()
  const input = message.fields.at(-2) as Message['fields'][number]
  input[1] = ` ${input[1].replace('(', '(  ').replace(')', ' )').replace('" "', '"   "').replace(';created', ';  created')} `
  assert.equal(refusalOf(message), undefined)
})

test('a key name that many clients share costs eight verifications, for those that came first', async () => {
  const others = (count: number, kid = 'bank-key', profile = FAPI) =>
    Array.from({ length: count }, (_, i): TestClient => {
      const id = `${profile.form} ${i}`
      return { id, jwks: [freshKey(kid).jwk], profile }
    })
  assert.equal(judge(goodMessage(), [...others(7), BANK]).client, 'bank')
  assert.equal(judge(goodMessage(), [BANK, ...others(20)]).client, 'bank')
  assert.match(
    refusalOf(goodMessage(), { signers: [...others(8), BANK] }) ?? '',
    /^mismatch: Too many clients/,
  )
  // Clients that sign in another form cost no verification.
  const uk = others(20, 'bank-key', profileOf({ profile: 'uk-jws', iss: 'a' }))
  assert.equal(judge(goodMessage(), [...others(7), ...uk, BANK]).client, 'bank')
  // A key that is named by its thumbprint is always tried.
  const kid = await calculateJwkThumbprint(ES256.jwk)
  const params = PARAMS.replace('bank-key', kid)
  const message = goodMessage(signMessage(COMPONENTS, { key: ES256.privateKey, algorithm: 'ES256', params }))
  assert.equal(judge(message, [...others(20, kid), signerOf('bank', [{ ...ES256.jwk, kid }])]).client, 'bank')
})

/** Keys and messages that httpsign-recording.go made with another library. */
const RECORDED: {
  readonly keys: { readonly keys: readonly object[] }
  readonly messages: readonly {
    readonly method: string
    readonly target: string
    readonly headers: Readonly<Record<string, readonly string[]>>
    readonly body: string
  }[]
} = JSON.parse(readFileSync(new URL('httpsign-recording.json', import.meta.url), 'utf8'))

test('what httpsign in Go has signed is accepted, with each algorithm and component, and no changed part of it', () => {
  assert.equal(RECORDED.messages.length, 12)
  const signers = [signerOf('bank', RECORDED.keys.keys)]
  for (const { headers, ...rest } of RECORDED.messages) {
    const fields = Object.entries(headers).flatMap(([name, values]) =>
      values.map((value): [string, string] => [name, value]),
    )
    const message = { ...rest, authority: 'api.bank.example', fields }
    const input = String(headers['Signature-Input'])
    const nowMs = Number(/created=(\d+)/.exec(input)?.[1]) * 1000
    assert.equal(refusalOf(message, { signers, nowMs }), undefined, input)
    const covered = fields.filter(([name]) => input.includes(`"${name.toLowerCase()}"`))
    for (const changed of [
      { method: 'PUT' },
      { target: message.target.replace('//', '/') },
      { body: `${message.body} ` },
      ...covered.map((field) => ({ fields: fields.with(fields.indexOf(field), [field[0], `${field[1]}x`]) })),
      {
        fields: fields.map(([name, value]): [string, string] => [name, value.replace('nonce="', 'nonce="x')]),
      },
    ])
      assert.notEqual(refusalOf({ ...message, ...changed }, { signers, nowMs }), undefined, input)
  }
})
