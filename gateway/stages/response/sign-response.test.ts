import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { describe, it } from 'node:test'
import { MessageSigner } from '../../auth/signatures/message-signer.ts'
import { BodyRoom } from '../../edge/bodies/body-room.ts'
import { refusal } from '../../refusals.ts'
import { makeExchange, makeGateway, makePrincipal, makeRoute } from '../stage.test-support.ts'
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
    settings: { dpop: { publicUrls: [] } as never },
    load: { bodyRoom: new BodyRoom() },
  }
  made.exchange.route = makeRoute({ signsResponses, auth: new Set(['bearer']) })
  made.exchange.host = 'API.example:8080'
  return { ...made, ...makeGateway(parts) }
}

describe('signResponse', () => {
  it('leaves a response as it is unless its row asks for it', () => {
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
