import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { describe, it } from 'node:test'
import { MessageSigner } from '../../auth/signatures/message-signer.ts'
import { BodyRoom } from '../../edge/bodies/body-room.ts'
import { refusal } from '../../refusals.ts'
import { forward } from '../forward.ts'
import type { Forwarding } from '../forwarding/forwarding.ts'
import { record } from '../record.ts'
import { makeExchange, makeGateway, makePrincipal, makeRoute } from '../stage.test-support.ts'
import { takePermit } from '../take-permit.ts'
import { refuse } from './refuse.ts'
import { holdResponse, signResponse } from './sign-response.ts'

const KEY = generateKeyPairSync('ed25519').privateKey.export({ format: 'pem', type: 'pkcs8' })
const SIGNER = new MessageSigner({ algorithm: 'ed25519', keyFile: '', alsoPublish: [] }, [String(KEY)])
const HEAD = { lines: '', contentLength: undefined, dated: false }
const MIB = 1024 * 1024

function signing(signsResponses = true) {
  const made = makeExchange()
  const parts = {
    signer: SIGNER,
    signers: { of: () => undefined } as never,
    settings: { dpop: { publicUrls: [] } as never },
    load: { bodyRoom: new BodyRoom() },
  }
  made.exchange.route = makeRoute({ signsResponses, auth: new Set(['bearer']) })
  made.exchange.host = 'API.example:8080'
  return { ...made, ...makeGateway(parts) }
}

describe('signResponse', () => {
  it('signs as the client of the request does, or counts that the key of the gateway cannot', () => {
    const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey
    const signer = new MessageSigner(
      { algorithm: 'rsa-pss-sha512', keyFile: '', alsoPublish: [], iss: 'bank' },
      [String(rsa.export({ format: 'pem', type: 'pkcs8' }))],
    )
    for (const [form, key, lines] of [
      ['rfc-9421', SIGNER, /^Content-Digest: .*\r\nSignature-Input: .*\r\nSignature: /],
      ['uk-jws', signer, /^x-jws-signature: [^\s.]+\.\.[^\s.]+\r\n$/],
      ['berlin-group', signer, /^Digest: SHA-256=\S+\r\nSignature: keyId="[^"]+",.*\r\n$/],
      ['uk-jws', SIGNER, /^$/],
      ['berlin-group', SIGNER, /^$/],
    ] as const) {
      const { gateway, exchange, measured } = signing()
      exchange.principal = makePrincipal({ client: 'tpp' })
      const of = (client: string) => (client === 'tpp' ? { profile: { form } } : undefined)
      Object.assign(gateway, { signer: key, signers: { of } })
      const signed = signResponse(gateway, exchange, { status: 200, head: HEAD, body: Buffer.from('x') })
      assert.match(signed.lines, lines, form)
      assert.equal(measured.length, signed.lines === '' ? 1 : 0)
      assert.equal(exchange.responseSignature === undefined, form !== 'rfc-9421')
    }
  })

  it('leaves a response as it is unless its row signs responses', () => {
    const { gateway, exchange } = signing(false)
    assert.equal(signResponse(gateway, exchange, { status: 200, head: HEAD, body: Buffer.from('x') }), HEAD)
    assert.equal(holdResponse(gateway, exchange, HEAD, false), undefined)
    assert.equal(exchange.responseSignature, undefined)
  })

  it('names the target as received where its Host is none of the public addresses', () => {
    const { gateway, exchange } = signing()
    const { lines } = signResponse(gateway, exchange, { status: 200, head: HEAD, body: Buffer.from('x') })
    assert.match(lines, /^Content-Digest: .*\r\nSignature-Input: gateway=.*\r\nSignature: gateway=:.*:\r\n$/)
    assert.equal(exchange.responseSignature?.signature.label, 'gateway')
  })

  it('holds at most 1 MiB, as long as there is room, and gives the room back', () => {
    const { gateway, exchange, res, measured } = signing()
    const held = holdResponse(gateway, exchange, HEAD, false)
    const piece = Buffer.alloc(MIB, 'x')
    assert.equal(held?.add(piece), true)
    piece.fill('y')
    assert.equal(held?.add(Buffer.from('x')), false)
    assert.deepEqual(held?.body, Buffer.alloc(MIB, 'x'))
    const fill = () => {
      const other = holdResponse(gateway, exchange, HEAD, false)
      return other?.add(piece)
    }
    while (fill() === true);
    assert.equal(fill(), false)
    res.close()
    assert.equal(fill(), true)
    assert.equal(holdResponse(gateway, exchange, { ...HEAD, contentLength: MIB + 1 }, false), undefined)
    assert.deepEqual(measured, ['gateway_responses_unsigned_total /api/*'])
    assert.notEqual(holdResponse(gateway, exchange, { ...HEAD, contentLength: MIB + 1 }, true), undefined)
  })

  it('signs a refusal to a proved caller, before its record is written', () => {
    for (const principal of [undefined, makePrincipal()]) {
      const { gateway, exchange, res } = signing()
      exchange.principal = principal
      refuse(gateway, exchange, refusal('not_found'))
      assert.equal(res.lines.includes('Signature: '), principal !== undefined)
      assert.equal(exchange.responseSignature !== undefined, principal !== undefined)
    }
  })
})

describe('a response that is held to be signed', () => {
  /** An exchange whose upstream the test plays. */
  function forwarded() {
    const made = signing()
    const { gateway, exchange } = made
    const call = { resume: () => {}, abort: () => {}, sent: true, upstream: 'http://up' }
    exchange.route = makeRoute({ signsResponses: true, client: { send: () => call, speaksHttp2: false } })
    exchange.principal = makePrincipal({ session: 'session-1' })
    record(gateway, exchange)
    takePermit(gateway, exchange)
    forward(gateway, exchange)
    return { ...made, forwarding: exchange.forwarding as Forwarding }
  }

  it('goes out whole, after its record', () => {
    const { forwarding, res, exchange, trail } = forwarded()
    forwarding.head(200, [])
    forwarding.data(Buffer.from('a'))
    forwarding.data(Buffer.from('b'))
    assert.deepEqual(res.calls, [])
    forwarding.end()
    assert.deepEqual([res.calls, res.body], [['head 200', 'write', 'end'], 'ab'])
    assert.deepEqual(trail.records.at(-1)?.signature, { ...exchange.responseSignature?.signature })
  })

  it('is a signed refusal where the service breaks off, or the session ends in its middle', () => {
    const broken = forwarded()
    broken.forwarding.head(200, [])
    broken.forwarding.data(Buffer.from('a'))
    broken.forwarding.fault({ kind: 'broken', cause: 'reset' })
    const ended = forwarded()
    Object.assign(ended.gateway.revocations, { isRevoked: () => true })
    ended.forwarding.head(200, [])
    ended.forwarding.data(Buffer.from('a'))
    ended.time.nowMs += 2000
    ended.forwarding.data(Buffer.from('b'))
    for (const [{ res }, status] of [
      [broken, 502],
      [ended, 401],
    ] as const) {
      assert.equal(res.status, status)
      assert.match(res.lines, /Signature: gateway=/)
      assert.doesNotMatch(res.body, /^a/)
    }
  })

  it('goes on without a signature where it turns out to be too long', () => {
    const { forwarding, res, exchange } = forwarded()
    forwarding.head(200, [])
    forwarding.data(Buffer.alloc(MIB, 'x'))
    forwarding.data(Buffer.from('y'))
    assert.equal(res.body.length, MIB + 1)
    forwarding.end()
    assert.deepEqual([res.lines.includes('Signature'), exchange.responseSignature], [false, undefined])
  })
})
