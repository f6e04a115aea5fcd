import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it, type TestContext } from 'node:test'
import { skipWithout } from '../../e2e/other-programs.ts'
import { createSender } from '../../outgoing/sender.ts'
import { type CertificateStatus, OcspAuthority } from '../../tls/stapling/ocsp-authority.test-support.ts'
import { responderOf } from '../../tls/stapling/ocsp-response.ts'
import type { Chain, Staple } from '../../tls/stapling/stapler.ts'
import type { Reports } from './reload-reports.ts'
import { pauseBefore, StapleFetch } from './staples.ts'

const MINUTE_MS = 60_000

describe('an OCSP response from the responder', { skip: skipWithout('openssl') }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'ocsp-'))
  const authority = new OcspAuthority(folder)
  let url: string
  /** What the responder does; each test has its own. */
  let respond: RequestListener
  const server = createServer((req, res) => respond(req, res))
  before(async () => {
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/ocsp`
    for (const [at, name] of ['asked', 'renewed'].entries())
      authority.issue(name, 30 + at, { more: `authorityInfoAccess = OCSP;URI:${url}` })
  })
  after(() => {
    server.close()
    server.closeAllConnections()
    rmSync(folder, { recursive: true })
  })

  const chainOf = (name: string): Chain => {
    const { leaf, issuer } = authority.certificate(name)
    return [leaf, issuer]
  }
  /** Responds as RFC 6960 appendix A asks, by openssl. */
  const speaking =
    (status: CertificateStatus, name = 'asked'): RequestListener =>
    async (req, res) => {
      const pieces: Buffer[] = []
      for await (const piece of req) pieces.push(piece)
      assert.equal(req.method, 'POST')
      assert.equal(req.url, '/ocsp')
      assert.equal(req.headers['content-type'], 'application/ocsp-request')
      const response = authority.respondTo(Buffer.concat(pieces), { status, name })
      res.writeHead(200, { 'content-type': 'application/ocsp-response' }).end(response)
    }

  function fetching(t: TestContext, chain = chainOf('asked')) {
    const state = {
      nowMs: Date.now(),
      timeoutMs: 60_000,
      staple: undefined as Staple | undefined,
      told: [] as string[],
    }
    const tell = (what: { readonly cause?: string }, msg: string) => void state.told.push(what.cause ?? msg)
    const reports = {
      clock: () => state.nowMs,
      log: { info: tell, warn: tell, error: tell },
      metrics: { configReload: () => {} },
    }
    const one = new StapleFetch(reports as unknown as Reports, {
      chain,
      enforce: (staple) => {
        state.staple = staple
      },
      sendTo: (to) => createSender({ url: to, timeoutMs: state.timeoutMs }),
    })
    t.after(() => one.stop())
    return { one, state }
  }

  it('is sent when it is good, and asked for again when the certificate is replaced', async (t) => {
    respond = speaking('good')
    const { one, state } = fetching(t)
    await one.ask()
    assert.deepEqual(state.told, ['the OCSP response is sent to clients'])
    const { staple } = state
    assert.ok(staple)
    respond = speaking('good', 'renewed')
    one.replaceCertificate(chainOf('renewed'))
    assert.equal(state.staple, undefined)
    await one.ask()
    const renewed = state.staple as Staple | undefined
    assert.ok(renewed)
    assert.notEqual(renewed.certificate, staple.certificate)
  })

  it('is no longer sent once the responder says revoked', async (t) => {
    respond = speaking('good')
    const { one, state } = fetching(t)
    await one.ask()
    assert.ok(state.staple)
    respond = speaking('revoked')
    await one.ask()
    assert.equal(state.staple, undefined)
    assert.equal(state.told.at(-1), 'the authority has revoked the certificate')
  })

  it('is asked for ever more seldom while it says revoked', async (t) => {
    const timers = t.mock.method(globalThis, 'setTimeout')
    respond = speaking('revoked')
    const { one } = fetching(t)
    for (let count = 0; count < 4; count++) await one.ask()
    // Each pause is at most a tenth shorter than planned.
    const pausesMs = timers.mock.calls.map(({ arguments: [, ms = 0] }) => ms)
    assert.ok(Math.max(...pausesMs) >= 8 * 0.9 * MINUTE_MS)
  })

  it('stays the last good one while the responder fails in whatever way, until that response has expired', async (t) => {
    respond = speaking('good')
    const { one, state } = fetching(t)
    await one.ask()
    const { staple } = state
    assert.ok(staple)
    const ways: [RequestListener, RegExp][] = [
      [speaking('unknown'), /does not know the certificate/],
      [(_req, res) => res.writeHead(500).end(), /responds 500$/],
      [(_req, res) => res.writeHead(302, { location: url }).end(), /responds 302$/],
      [(_req, res) => res.end(Buffer.alloc(70_000)), /is longer than 65536 bytes/],
      [(_req, res) => res.end('nonsense'), /not DER/],
      [(req) => req.socket.destroy(), /^http:.*: /],
    ]
    for (const [way, reason] of ways) {
      respond = way
      await one.ask()
      assert.match(state.told.at(-1) ?? '', reason)
      assert.equal(state.staple, staple)
    }
    respond = () => {}
    state.timeoutMs = 50
    await one.ask()
    assert.match(state.told.at(-1) ?? '', /no response in time/)
    assert.equal(state.staple, staple)
    state.nowMs += 61 * MINUTE_MS
    await one.check()
    assert.equal(state.staple, undefined)
    assert.match(state.told.at(-1) ?? '', /expired at/)
  })

  it('needs a responder of http in the certificate, and its issuer', async (t) => {
    const nobody = fetching(t, chainOf('server'))
    await nobody.one.ask()
    assert.deepEqual(nobody.state.told, ['the certificate names no responder with an http URL'])
    const alone = fetching(t, [chainOf('asked')[0]])
    await alone.one.ask()
    assert.match(alone.state.told[0] ?? '', /lacks the certificate of the issuer/)
    authority.issue('secure', 40, { more: 'authorityInfoAccess = OCSP;URI:https://127.0.0.1/ocsp' })
    assert.equal(responderOf(chainOf('secure')[0]), undefined)
    assert.equal(responderOf(chainOf('asked')[0]), url)
  })
})

it('a responder is asked when half of the time is over, and after failures ever more seldom', () => {
  assert.equal(pauseBefore({ leftMs: 60 * MINUTE_MS, fruitless: 0 }), 30 * MINUTE_MS)
  assert.equal(pauseBefore({ leftMs: 1, fruitless: 0 }), MINUTE_MS)
  assert.equal(pauseBefore({ leftMs: 7 * 24 * 60 * MINUTE_MS, fruitless: 0 }), 24 * 60 * MINUTE_MS)
  assert.deepEqual(
    [1, 2, 3, 7, 1000].map((fruitless) => pauseBefore({ leftMs: 60 * MINUTE_MS, fruitless }) / MINUTE_MS),
    [1, 2, 4, 60, 60],
  )
})
