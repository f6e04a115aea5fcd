import assert from 'node:assert/strict'
import { createHmac, createSecretKey, type KeyObject } from 'node:crypto'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { Webhook } from 'standardwebhooks'
import { schemeOf } from '../config/clients/webhook-schemes.ts'
import { ReplayMemory } from './replay.ts'
import {
  contentKey,
  readWebhookHeaders,
  replayKey,
  verifyWebhook,
  WEBHOOK_REFUSED,
  type WebhookFault,
  type WebhookMessage,
} from './webhook-signature.ts'

// The published vector of Standard Webhooks 1.0 (libraries/javascript, "sign function works").
const VECTOR = {
  secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
  timestamp: '1614265330',
  body: '{"test": 2432232314}',
  signature: 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
}
const scheme = schemeOf('standard')
const NOW_MS = 1_614_265_330_000
const OTHER_SECRET = `whsec_${Buffer.from('another secret of 32 bytes, fine').toString('base64')}`

interface Delivery {
  readonly id?: string | undefined
  readonly timestamp?: string | undefined
  readonly signature?: string | undefined
  readonly body?: string | Buffer
  readonly secrets?: readonly string[]
  readonly nowMs?: number
}

function keyOf(secret: string): KeyObject {
  return createSecretKey(Buffer.from(secret.slice('whsec_'.length), 'base64'))
}

/** Checks the vector, with some parts replaced, in both steps. */
function check(changes: Delivery = {}): WebhookFault | undefined {
  const { id, timestamp, signature, body, secrets, nowMs } = {
    ...VECTOR,
    secrets: [VECTOR.secret],
    nowMs: NOW_MS,
    ...changes,
  }
  const { message, fault } = readWebhookHeaders({ id, timestamp, signature }, scheme, nowMs)
  const content = { scheme, body: Buffer.from(body), secrets: secrets.map(keyOf), urls: [''] }
  return fault ?? verifyWebhook(message, content)
}

function reason(changes: Delivery): string {
  return check(changes)?.reason ?? 'accepted'
}

/** Signs what the library would not sign. */
function sign(changes: { id?: string; timestamp?: string; body?: string; hash?: string }): Buffer {
  const { id, timestamp, body } = { ...VECTOR, ...changes }
  return createHmac(changes.hash ?? 'sha256', keyOf(VECTOR.secret))
    .update(`${id}.${timestamp}.${body}`)
    .digest()
}

function v1(digest: Buffer): string {
  return `v1,${digest.toString('base64')}`
}

describe('a webhook of the standardwebhooks library', () => {
  it('is accepted, as the published vector is', () => {
    assert.equal(check(), undefined)
    const signature = new Webhook(VECTOR.secret).sign(VECTOR.id, new Date(NOW_MS), VECTOR.body)
    assert.equal(signature, VECTOR.signature)
  })

  it('is accepted with any id, time, text and secret that the standard allows', () => {
    fc.assert(
      fc.property(
        fc.stringMatching(/^[A-Za-z0-9_-]{1,128}$/),
        fc.integer({ min: 0, max: 4_000_000_000 }),
        fc.string({ unit: 'grapheme', maxLength: 300 }),
        fc.uint8Array({ minLength: 24, maxLength: 64 }),
        (id, seconds, body, bytes) => {
          const secret = `whsec_${Buffer.from(bytes).toString('base64')}`
          const nowMs = seconds * 1000
          const signature = new Webhook(secret).sign(id, new Date(nowMs), body)
          assert.equal(
            check({ id, timestamp: String(seconds), signature, body, secrets: [secret], nowMs }),
            undefined,
          )
        },
      ),
      { numRuns: 200 },
    )
  })

  it('is accepted with an empty body, and with one that is no text', () => {
    assert.equal(check({ body: '', signature: v1(sign({ body: '' })) }), undefined)
    const body = Buffer.from([0xff, 0x00, 0xc3, 0x28])
    const digest = createHmac('sha256', keyOf(VECTOR.secret))
      .update(Buffer.concat([Buffer.from(`${VECTOR.id}.${VECTOR.timestamp}.`), body]))
      .digest()
    assert.equal(check({ body, signature: v1(digest) }), undefined)
    // A decoder would make one text of all invalid bytes. The bytes are signed, not that text.
    assert.equal(reason({ body: Buffer.from([0xfe, 0x00, 0xc3, 0x28]), signature: v1(digest) }), 'mismatch')
  })
})

describe('the headers of a webhook', () => {
  it('must all be there', () => {
    for (const missing of ['id', 'timestamp', 'signature']) {
      const fault = check({ [missing]: undefined })
      assert.equal(fault?.reason, 'missing')
      assert.equal(fault?.cause, `no webhook-${missing}`)
    }
  })

  it('hold an id of 1 to 128 visible characters without a full stop, even if another is signed', () => {
    for (const id of ['m', 'm'.repeat(128), '!"#$%&\'()*+,-/:;<=>?@[\\]^_`{|}~']) {
      assert.equal(check({ id, signature: v1(sign({ id })) }), undefined)
    }
    for (const id of ['', 'm'.repeat(129), 'a.b', '.', 'a b', ' a', 'a\t', 'ü', 'a\u007f']) {
      assert.equal(reason({ id, signature: v1(sign({ id })) }), 'malformed', id)
    }
  })

  it('do not let the border between id, time and body be moved under one signature', () => {
    const body = `${VECTOR.timestamp}.{}`
    const signature = v1(sign({ body }))
    assert.equal(check({ body, signature }), undefined)
    assert.equal(reason({ id: `${VECTOR.id}.${VECTOR.timestamp}`, body: '{}', signature }), 'malformed')
    const joined = { timestamp: `${VECTOR.timestamp}.${VECTOR.timestamp}`, body: '{}', signature }
    assert.equal(reason(joined), 'malformed')
  })

  it('hold a time in whole seconds in its one spelling, even if another is signed', () => {
    const spellings = [
      '',
      'hello',
      '-1614265330',
      '+1614265330',
      '01614265330',
      '1614265330.0',
      '1.61426533e9',
    ]
    for (const timestamp of [...spellings, '0x60379972', ' 1614265330', '1614265330s', '1614265330000000']) {
      assert.equal(reason({ timestamp, signature: v1(sign({ timestamp })) }), 'malformed', timestamp)
    }
    assert.equal(check({ timestamp: '0', signature: v1(sign({ timestamp: '0' })), nowMs: 0 }), undefined)
  })

  it('hold a time within 300 seconds of ours, both ways, to the second', () => {
    assert.equal(check({ nowMs: NOW_MS + 300_999 }), undefined)
    assert.equal(reason({ nowMs: NOW_MS + 301_000 }), 'stale')
    assert.equal(check({ nowMs: NOW_MS - 300_000 }), undefined)
    assert.equal(reason({ nowMs: NOW_MS - 300_001 }), 'stale')
    assert.equal(
      check({ nowMs: NOW_MS + 400_000 })?.cause,
      'webhook-timestamp is 400 s behind our clock; 300 s are allowed',
    )
    assert.equal(
      check({ nowMs: NOW_MS - 400_000 })?.cause,
      'webhook-timestamp is 400 s ahead of our clock; 300 s are allowed',
    )
  })
})

describe('the list of signatures', () => {
  const wrong = `v1,${Buffer.alloc(32, 7).toString('base64')}`

  it('is good when one of them is, wherever it stands and whatever stands beside it', () => {
    const asymmetric =
      'v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=='
    const lists = [
      [wrong, VECTOR.signature],
      [VECTOR.signature, wrong],
      [asymmetric, VECTOR.signature],
      ['v2,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc=', 'nonsense', 'v1,', ',', '', VECTOR.signature, ''],
    ]
    for (const list of lists) assert.equal(check({ signature: list.join(' ') }), undefined, list.join(' '))
  })

  it('is good with any of several secrets, so that one can take the place of another', () => {
    assert.equal(check({ secrets: [OTHER_SECRET, VECTOR.secret] }), undefined)
    assert.equal(check({ secrets: [VECTOR.secret, OTHER_SECRET] }), undefined)
    const both = new Webhook(OTHER_SECRET).sign(VECTOR.id, new Date(NOW_MS), VECTOR.body)
    assert.equal(check({ signature: `${both} ${VECTOR.signature}` }), undefined)
    assert.equal(check({ signature: `${both} ${VECTOR.signature}`, secrets: [OTHER_SECRET] }), undefined)
  })

  it('is refused when none fits, or no secret is left', () => {
    assert.equal(reason({ signature: wrong }), 'mismatch')
    assert.equal(reason({ secrets: [OTHER_SECRET] }), 'mismatch')
    assert.equal(reason({ secrets: [] }), 'mismatch')
  })

  it('is refused when nothing in it is a signature of version 1', () => {
    const text = VECTOR.signature.slice('v1,'.length)
    const others = ['', ' ', text, `v1a,${text}`, `v2,${text}`, `V1,${text}`, `v1:${text}`, `v1, ${text}`]
    for (const signature of [...others, `v1=${text}`, `v11,${text}`, 'v1', 'v1,', `v1\t,${text}`]) {
      assert.equal(reason({ signature }), 'unsupported', signature)
    }
  })

  it('counts base64 in its one spelling only, and 32 whole bytes only', () => {
    const digest = sign({})
    const text = digest.toString('base64')
    const spellings = [
      digest.toString('base64url'),
      text.slice(0, -1),
      `${text}=`,
      `${text.slice(0, -2)}F=`,
      `${text},`,
      `${text}\n`,
      `${text.slice(0, 10)}\n${text.slice(10)}`,
      digest.toString('hex'),
      VECTOR.signature.slice(0, 8),
    ]
    for (const spelling of spellings) {
      assert.notEqual(spelling, text)
      assert.equal(reason({ signature: `v1,${spelling}` }), 'unsupported', spelling)
    }
    for (let bytes = 0; bytes < 32; bytes++) {
      assert.equal(reason({ signature: v1(digest.subarray(0, bytes)) }), 'unsupported')
    }
    assert.equal(reason({ signature: v1(Buffer.concat([digest, Buffer.alloc(1)])) }), 'unsupported')
    assert.equal(reason({ signature: v1(Buffer.concat([digest, digest])) }), 'unsupported')
  })

  it('counts HMAC-SHA256 only', () => {
    for (const hash of ['sha1', 'sha224', 'sha384', 'sha512']) {
      assert.equal(reason({ signature: v1(sign({ hash })) }), 'unsupported', hash)
    }
    for (const hash of ['sha3-256', 'sha512-256']) {
      assert.equal(reason({ signature: v1(sign({ hash })) }), 'mismatch', hash)
    }
  })

  it('has at most 32 entries', () => {
    const filler = (count: number) => Array.from({ length: count }, () => wrong).join(' ')
    assert.equal(check({ signature: `${filler(31)} ${VECTOR.signature}` }), undefined)
    assert.equal(reason({ signature: `${filler(32)} ${VECTOR.signature}` }), 'malformed')
    assert.equal(reason({ signature: ' '.repeat(15_000) }), 'malformed')
  })
})

describe('a webhook that was tampered with', () => {
  const byte = fc.integer({ min: 0, max: 255 })

  it('is refused for any bit flipped in body, id, time, signature or secret', () => {
    const parts = ['body', 'id', 'timestamp', 'signature', 'secret'] as const
    fc.assert(
      fc.property(fc.constantFrom(...parts), fc.nat(), fc.integer({ min: 0, max: 7 }), (part, at, bit) => {
        const bytes = Buffer.from(
          part === 'secret' ? VECTOR.secret.slice(6) : VECTOR[part],
          part === 'secret' ? 'base64' : 'latin1',
        )
        const index = at % bytes.length
        bytes.writeUInt8(bytes.readUInt8(index) ^ (1 << bit), index)
        const changed =
          part === 'secret'
            ? { secrets: [`whsec_${bytes.toString('base64')}`] }
            : { [part]: part === 'body' ? bytes : bytes.toString('latin1') }
        assert.ok(check(changed), `${part} ${index} ${bit}`)
      }),
      { numRuns: 1000 },
    )
  })

  it('is refused for any byte added to the body or taken from it', () => {
    fc.assert(
      fc.property(fc.nat({ max: VECTOR.body.length - 1 }), byte, (at, added) => {
        const body = Buffer.from(VECTOR.body)
        const longer = Buffer.concat([body.subarray(0, at), Buffer.of(added), body.subarray(at)])
        const shorter = Buffer.concat([body.subarray(0, at), body.subarray(at + 1)])
        assert.equal(reason({ body: longer }), 'mismatch')
        assert.equal(reason({ body: shorter }), 'mismatch')
      }),
    )
  })
})

describe('a refused webhook', () => {
  it('is told one sentence, whichever check failed, and its cause holds no secret and no signature', () => {
    const refusals = [
      { id: undefined },
      { id: 'a.b' },
      { nowMs: 0 },
      { signature: 'v2,x' },
      { secrets: [OTHER_SECRET] },
    ].map(check)
    assert.equal(new Set(refusals.map((fault) => fault?.reason)).size, 5)
    assert.deepEqual(new Set(refusals.map((fault) => fault?.description)), new Set([WEBHOOK_REFUSED]))
    const told = JSON.stringify(refusals)
    for (const secret of [VECTOR.signature.slice(3), VECTOR.secret.slice(6), OTHER_SECRET.slice(6)]) {
      assert.ok(!told.includes(secret))
    }
  })

  it('shows in its cause no more of a header than a log can bear', () => {
    const cause = check({ id: `${'x\n'.repeat(4000)}` })?.cause ?? ''
    assert.ok(cause.length < 100 && !cause.includes('\n'), cause)
  })
})

describe('a delivery, once and again', () => {
  function message(changes: Delivery = {}): WebhookMessage {
    const { id, timestamp, signature } = { ...VECTOR, ...changes }
    const reading = readWebhookHeaders({ id, timestamp, signature }, scheme, NOW_MS)
    assert.ok(reading.message)
    return reading.message
  }

  it('is a replay with the same key, id and time, also under another list of signatures', () => {
    const seen = new ReplayMemory({ lifetimeMs: 600_000, clock: () => NOW_MS })
    assert.equal(seen.take(replayKey('key_a', message()), 'key_a'), undefined)
    assert.equal(seen.take(replayKey('key_a', message()), 'key_a'), 'replayed')
    const signature = `v1,${Buffer.alloc(32).toString('base64')} ${VECTOR.signature} v9,x`
    assert.equal(seen.take(replayKey('key_a', message({ signature })), 'key_a'), 'replayed')
  })

  it('is no replay when its sender signs a new time, nor under another id or key', () => {
    const seen = new ReplayMemory({ lifetimeMs: 600_000, clock: () => NOW_MS })
    assert.equal(seen.take(replayKey('key_a', message()), 'key_a'), undefined)
    assert.equal(seen.take(replayKey('key_a', message({ timestamp: '1614265335' })), 'key_a'), undefined)
    assert.equal(seen.take(replayKey('key_a', message({ id: 'msg_2' })), 'key_a'), undefined)
    assert.equal(seen.take(replayKey('key_b', message()), 'key_b'), undefined)
  })
})

describe('a webhook of another scheme', () => {
  // https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries#testing-the-webhook-payload-validation
  it('is accepted as the published vector of GitHub is', () => {
    const github = schemeOf('github')
    const signature = 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17'
    const { message } = readWebhookHeaders({ id: undefined, timestamp: undefined, signature }, github, NOW_MS)
    assert.ok(message)
    const secrets = [createSecretKey(Buffer.from("It's a Secret to Everybody"))]
    const content = { scheme: github, secrets, body: Buffer.from('Hello, World!'), urls: [''] }
    assert.equal(verifyWebhook(message, content), undefined)
    assert.ok(verifyWebhook(message, { ...content, body: Buffer.from('Hello, World?') }))
  })

  it('is refused if its id holds a separator, and its content key depends on all that is signed', () => {
    const described = schemeOf({
      ...{
        header: 'X-Sig',
        algorithm: 'sha256',
        encoding: 'hex',
        signed: '{id}|{body}|{url}',
        idHeader: 'X-Id',
      },
      ...{ prefix: undefined, timestampHeader: undefined, tolerance: undefined, secretEncoding: undefined },
    })
    const headers = { timestamp: undefined, signature: 'a'.repeat(64) }
    assert.equal(
      readWebhookHeaders({ id: 'a|b', ...headers }, described, NOW_MS).fault?.cause,
      'X-Id "a|b"'.replace('X-Id', 'x-id'),
    )
    const keys = ['a', 'b'].flatMap((id) =>
      ['https://a.example/', 'https://b.example/'].map((url) => {
        const { message } = readWebhookHeaders({ id, ...headers }, described, NOW_MS)
        assert.ok(message)
        return contentKey('key', message, { scheme: described, body: Buffer.from('{}'), urls: [url] })
      }),
    )
    assert.equal(new Set(keys).size, 4)
  })
})
