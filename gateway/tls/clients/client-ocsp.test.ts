import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { skipWithout } from '../../e2e/other-programs.ts'
import { createSender } from '../../outgoing/sender.ts'
import { OcspAuthority } from '../stapling/ocsp-authority.test-support.ts'
import { ClientOcsp } from './client-ocsp.ts'
import type { PeerCertificate } from './peer.ts'

const MINUTE_MS = 60_000

describe('OCSP of a client certificate', { skip: skipWithout('openssl') }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'ocsp-'))
  const authority = new OcspAuthority(folder)
  let respond: RequestListener
  let asked = 0
  const server = createServer((req, res) => {
    respond(req, res)
  })
  before(async () => {
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/ocsp`
    for (const [at, name] of ['client', 'other'].entries())
      authority.issue(name, 30 + at, { section: 'client', more: `authorityInfoAccess = OCSP;URI:${url}` })
    authority.issue('silent', 40, { section: 'client' })
    authority.issue('delegate', 41, { section: 'delegate' })
    authority.issue('stranger', 42, { section: 'other' })
  })
  after(() => {
    server.close()
    server.closeAllConnections()
    rmSync(folder, { recursive: true })
  })

  function peerOf(name: string): PeerCertificate {
    const { leaf, issuer } = authority.certificate(name)
    return {
      authorized: true,
      reason: undefined,
      thumbprintHex: hash('sha256', leaf.raw, 'hex'),
      thumbprintBase64url: hash('sha256', leaf.raw, 'base64url'),
      subject: `CN=${name}`,
      sanDns: [],
      sanUri: [],
      der: leaf.raw,
      authorities: [issuer],
    }
  }
  /** Answers as `openssl ocsp` does. */
  const speaking =
    (wish: Parameters<OcspAuthority['respondTo']>[1] = {}): RequestListener =>
    async (req, res) => {
      const pieces: Buffer[] = []
      for await (const piece of req) pieces.push(piece)
      res.end(authority.respondTo(Buffer.concat(pieces), { name: 'client', ...wish }))
    }
  function asking(mode: 'soft' | 'hard') {
    asked = 0
    const told: string[] = []
    const state = { nowMs: Date.now(), aheadMs: 0, timeoutMs: 60_000 }
    const ocsp = new ClientOcsp({
      mode,
      clock: () => state.nowMs + state.aheadMs,
      steadyClock: () => state.nowMs,
      onAnswer: (outcome) => told.push(outcome),
      sendTo: (url) => (request) => {
        asked += 1
        return createSender({ url, timeoutMs: state.timeoutMs })(request)
      },
    })
    /** The verdict for a request, which waits as requests do. */
    const verdict = async (peer: PeerCertificate) => {
      await ocsp.whenKnown(peer)
      const { authorized, reason, isUnchecked = false } = ocsp.judge(peer)
      return authorized ? 'good' : `${isUnchecked ? 'unchecked' : 'refused'}: ${reason}`
    }
    return { ocsp, state, told, verdict }
  }
  const LIES: readonly (readonly [string, () => RequestListener, RegExp, laterMs?: number])[] = [
    [
      'answers for another certificate',
      () => (_, res) => res.end(authority.respond({ name: 'other' })),
      /it is for another certificate/,
    ],
    ['answers what has expired', () => speaking(), /expired at/, 61 * MINUTE_MS],
    ['answers what is to come', () => speaking(), /is not valid before/, -20 * MINUTE_MS],
    ['has no right to sign', () => speaking({ signer: 'stranger' }), /nor by a responder of that issuer/],
    ['is out of order', () => (_, res) => res.writeHead(500).end(), /responds 500$/],
    ['sends elsewhere', () => (_, res) => res.writeHead(302, { location: '/ocsp' }).end(), /responds 302$/],
    ['says to try later', () => (_, res) => res.end(Buffer.from('30030a0103', 'hex')), /tryLater/],
    ['talks nonsense', () => (_, res) => res.end('nonsense'), /not DER/],
    ['talks without end', () => (_, res) => res.end(Buffer.alloc(70_000)), /longer than 65536 bytes/],
    ['breaks off', () => (req) => req.socket.destroy(), /ocsp: /],
  ]

  it('accepts what the authority or its delegate calls good, and refuses what it has revoked or does not know', async () => {
    const client = peerOf('client')
    for (const mode of ['soft', 'hard'] as const) {
      for (const wish of [{}, { signer: 'delegate' }, { minutes: 0 }]) {
        respond = speaking(wish)
        assert.equal(await asking(mode).verdict(client), 'good')
      }
      respond = speaking({ status: 'revoked' })
      assert.equal(await asking(mode).verdict(client), 'refused: it was revoked (OCSP)')
      respond = speaking({ status: 'unknown' })
      assert.equal(await asking(mode).verdict(client), 'refused: its responder does not know it (OCSP)')
    }
  })

  for (const [what, way, reason, laterMs = 0] of LIES) {
    it(`when the responder ${what}, a certificate passes if soft and is unchecked if hard`, async () => {
      respond = way()
      const [soft, hardly] = [asking('soft'), asking('hard')]
      soft.state.nowMs += laterMs
      hardly.state.nowMs += laterMs
      assert.equal(await soft.verdict(peerOf('client')), 'good')
      assert.deepEqual(soft.told, ['unavailable'])
      const hard = await hardly.verdict(peerOf('client'))
      assert.match(hard, /^unchecked: its responder gives no good answer: /)
      assert.match(hard, reason)
    })
  }

  it('waits for a hanging responder only until its deadline, and only once', async () => {
    respond = () => {}
    const { told, verdict, state } = asking('hard')
    state.timeoutMs = 50
    assert.match(await verdict(peerOf('client')), /^unchecked: .* no response in time$/)
    assert.match(await verdict(peerOf('client')), /^unchecked: .* no response in time$/)
    assert.deepEqual([asked, told], [1, ['unavailable']])
    respond = speaking()
    state.timeoutMs = 60_000
    state.nowMs += MINUTE_MS
    assert.equal(await verdict(peerOf('client')), 'good')
  })

  it('waits for no responder that was silent three times in a row, and tries it again with one question', async () => {
    respond = (req) => req.socket.destroy()
    const { told, verdict, state, ocsp } = asking('hard')
    const certificate = (thumbprintHex: string) => ({ ...peerOf('client'), thumbprintHex })
    await Promise.all(['1', '2', '3'].map((name) => verdict(certificate(name))))
    assert.deepEqual([asked, told.length], [3, 3])
    const [next, other] = [certificate('4'), certificate('5')]
    assert.equal(ocsp.whenKnown(next), undefined)
    assert.equal(await verdict(next), 'unchecked: its responder has not answered')
    respond = speaking()
    state.nowMs += 10_000
    const trial = ocsp.whenKnown(next)
    assert.equal(ocsp.whenKnown(other), undefined)
    await trial
    assert.deepEqual([await verdict(next), await verdict(other), asked], ['good', 'good', 5])
  })

  it('asks once for many requests at the same time, and again only when half of the time of the answer is over', async () => {
    respond = speaking()
    const { state, verdict, ocsp, told } = asking('hard')
    const many = await Promise.all(Array.from({ length: 20 }, () => verdict(peerOf('client'))))
    assert.deepEqual([new Set(many), asked], [new Set(['good']), 1])
    state.nowMs += 25 * MINUTE_MS
    assert.equal(await verdict(peerOf('client')), 'good')
    assert.equal(asked, 1)
    state.nowMs += 10 * MINUTE_MS
    // Nobody waits for the new answer.
    assert.equal(ocsp.whenKnown(peerOf('client')), undefined)
    assert.equal(await verdict(peerOf('client')), 'good')
    while (told.length < 2) await new Promise(setImmediate)
    assert.equal(asked, 2)
  })

  it('asks again just as early when the wall clock is set back', async () => {
    respond = speaking()
    const { state, verdict, ocsp } = asking('soft')
    state.aheadMs = 20 * MINUTE_MS
    assert.equal(await verdict(peerOf('client')), 'good')
    state.aheadMs = 0
    state.nowMs += 25 * MINUTE_MS
    ocsp.judge(peerOf('client'))
    assert.equal(asked, 2)
  })

  it('does not use an answer after its end when the wall clock is set forward', async () => {
    respond = speaking()
    const { state, verdict, ocsp } = asking('hard')
    assert.equal(await verdict(peerOf('client')), 'good')
    state.aheadMs = 61 * MINUTE_MS
    assert.equal(ocsp.judge(peerOf('client')).reason, 'the answer of its responder has expired')
    assert.match(await verdict(peerOf('client')), /expired at/)
  })

  it('tries a silent responder again just as early when the wall clock is set back', async () => {
    respond = (req) => req.socket.destroy()
    const { state, verdict, ocsp } = asking('hard')
    const certificate = (thumbprintHex: string) => ({ ...peerOf('client'), thumbprintHex })
    await Promise.all(['1', '2', '3'].map((name) => verdict(certificate(name))))
    assert.equal(ocsp.whenKnown(certificate('4')), undefined)
    state.aheadMs = -60 * MINUTE_MS
    state.nowMs += 10_000
    await ocsp.whenKnown(certificate('4'))
    assert.equal(asked, 4)
  })

  it('keeps a good answer to its end while the responder is away, and a bad one until a new answer comes', async () => {
    respond = speaking()
    const { state, verdict, ocsp, told } = asking('hard')
    const client = peerOf('client')
    assert.equal(await verdict(client), 'good')
    const answers = async (count: number) => {
      while (told.length < count) await new Promise(setImmediate)
    }
    respond = (req) => req.socket.destroy()
    state.nowMs += 35 * MINUTE_MS
    assert.equal(await verdict(client), 'good')
    await answers(2)
    assert.equal(await verdict(client), 'good')
    state.nowMs += 30 * MINUTE_MS
    assert.equal(ocsp.judge(client).reason, 'the answer of its responder has expired')
    assert.match(await verdict(client), /^unchecked: /)

    respond = speaking({ status: 'revoked' })
    const soft = asking('soft')
    assert.match(await soft.verdict(client), /^refused: it was revoked/)
    respond = (req) => req.socket.destroy()
    for (let hours = 1; hours < 4; hours++) {
      soft.state.nowMs += 61 * MINUTE_MS
      assert.match(await soft.verdict(client), /^refused: it was revoked/)
    }
    respond = speaking({ minutes: 600 })
    soft.state.nowMs += 2 * MINUTE_MS
    assert.equal(await soft.verdict(client), 'good')
  })

  it('does not take a good answer from before the revocation, which a cache may repeat, for a new one', async () => {
    const good = authority.respond({ name: 'client' })
    const second = () => Math.floor(Date.now() / 1000)
    const nextSecond = async () => {
      for (const last = second(); second() === last; ) await new Promise(setImmediate)
    }
    await nextSecond()
    respond = speaking({ status: 'revoked' })
    const { state, verdict, told } = asking('soft')
    assert.match(await verdict(peerOf('client')), /^refused: it was revoked/)
    respond = (_, res) => res.end(good)
    for (let answers = 2; answers < 5; answers++) {
      state.nowMs += 10 * MINUTE_MS
      await verdict(peerOf('client'))
      while (told.length < answers) await new Promise(setImmediate)
      assert.match(await verdict(peerOf('client')), /^refused: it was revoked/)
    }
    respond = speaking({ minutes: 600 })
    await nextSecond()
    state.nowMs += 61 * MINUTE_MS
    assert.equal(await verdict(peerOf('client')), 'good')
  })

  it('does not take an old answer without an end for a new one', async () => {
    respond = speaking({ minutes: 0 })
    const { state, verdict } = asking('hard')
    assert.equal(await verdict(peerOf('client')), 'good')
    state.nowMs += 11 * MINUTE_MS
    assert.match(await verdict(peerOf('client')), /^unchecked: .* expired at/)
  })

  it('refuses a certificate that names no responder if hard, and asks nothing about one that is bad already', async () => {
    respond = speaking()
    const silent = peerOf('silent')
    assert.equal(await asking('soft').verdict(silent), 'good')
    const hard = asking('hard')
    assert.match(await hard.verdict(silent), /^refused: it names no OCSP responder/)
    assert.equal(hard.ocsp.whenKnown({ ...peerOf('client'), authorized: false }), undefined)
    assert.equal(asked, 0)
  })

  it('accepts answers only of the authority that has issued the certificate', async () => {
    mkdirSync(join(folder, 'foreign'))
    const foreign = new OcspAuthority(join(folder, 'foreign'))
    respond = speaking()
    const peer = { ...peerOf('client'), authorities: [foreign.certificate().issuer] }
    assert.match(await asking('hard').verdict(peer), /^unchecked: /)
  })
})
