import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { BlockList } from 'node:net'
import { duplexPair } from 'node:stream'
import { describe, it } from 'node:test'
import type { TLSSocket } from 'node:tls'
import { Commit } from '../../audit/commit/commit.ts'
import { until } from '../../edge/http1/conformance/client.test-support.ts'
import { type Seen, scribe, serverOf, wireTo } from '../../edge/http1/conformance/scribe.test-support.ts'
import { turns, type Wire } from '../../edge/http1/conformance/wire.test-support.ts'
import { Tunnels } from '../../edge/http1/tunnels.ts'
import type { ClientOcsp } from '../../tls/clients/client-ocsp.ts'
import type { PeerCertificate } from '../../tls/clients/peer.ts'
import { makeAuthority, makeCertificate } from '../../tls/demo/throw-away-ca.ts'
import { record } from '../record.ts'
import { makeExchange, makeGateway, makeRoute } from '../stage.test-support.ts'
import { lapseOf, openTunnel } from './tunnel.ts'

const UPGRADE =
  'GET /chat HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: a\r\n\r\n'

/**
 * A tunnel that the upstream has accepted, and whose record is not committed yet.
 *
 * @param before what happens in the turn in which the 101 comes
 */
async function uncommitted(before: (wire: Wire) => void = () => {}) {
  const handler = scribe({ begun: () => {} })
  const wire = wireTo(serverOf(handler))
  wire.send(UPGRADE)
  await turns()
  const tunnels = new Tunnels(1, () => 0)
  const made = makeGateway({ load: { tunnels } })
  const { exchange } = makeExchange({ upgrade: 'websocket' })
  exchange.route = makeRoute()
  record(made.gateway, exchange)
  const commit = new Commit()
  made.trail.commit = commit
  const [upstream, service] = duplexPair()
  let heard = ''
  service.on('data', (piece: Buffer) => {
    heard += piece.toString()
  })
  const { res } = handler.seen[0] as Seen
  const ours = Object.assign(exchange, { res })
  before(wire)
  assert.equal(openTunnel(made.gateway, ours, { fields: [], socket: upstream }), undefined)
  return { ...made, wire, tunnels, commit, upstream, service, heard: () => heard }
}

describe('a tunnel whose 101 is not in the trail yet', () => {
  it('passes nothing on until the commit, even if the upstream has ended, and then everything', async () => {
    const { wire, commit, service, tunnels, heard, measured, trail } = await uncommitted()
    service.end('last words')
    wire.send('early')
    await turns()
    assert.deepEqual([wire.received, heard(), tunnels.taken], ['', '', 1])
    commit.finish(undefined)
    await turns(20)
    assert.match(wire.received, /^HTTP\/1\.1 101 Switching Protocols\r\n.*\r\n\r\nlast words$/s)
    assert.equal(heard(), 'early')
    wire.sendEnd()
    await turns(20)
    assert.equal(tunnels.taken, 0)
    assert.deepEqual(measured, ['closed 101 0', 'gateway_tunnels_ended_total closed'])
    assert.equal(trail.records[1]?.statusCode, 101)
  })

  it('passes on what its client had sent when it closed its half', async () => {
    const { wire, commit, service, heard } = await uncommitted()
    const ended = once(service, 'end')
    wire.send('early')
    wire.sendEnd()
    await until(() => wire.readableEnded)
    commit.finish(undefined)
    await ended
    assert.equal(heard(), 'early')
    assert.match(wire.received, /^HTTP\/1\.1 101 /)
    service.end()
    await until(() => wire.destroyed)
  })

  type Held = Awaited<ReturnType<typeof uncommitted>>
  const goings: readonly (readonly [string, (held: Held) => void])[] = [
    ['its client goes', ({ wire }) => wire.destroy()],
    ['its upstream fails', ({ upstream }) => upstream.destroy(new Error('reset'))],
    [
      'its record cannot be written in time',
      ({ commit, trail }) => {
        commit.finish(new Error('no fsync'))
        trail.unpaid[0]?.(new Error('still full'))
      },
    ],
  ]
  for (const [what, go] of goings) {
    it(`is never begun when ${what}, and gives its place back`, async () => {
      const held = await uncommitted()
      held.service.write('words')
      await turns()
      go(held)
      await turns()
      held.commit.finish(undefined)
      await turns()
      const { wire, tunnels, upstream, measured } = held
      assert.deepEqual([wire.received, wire.destroyed, upstream.destroyed], ['', true, true])
      assert.deepEqual([tunnels.taken, measured], [0, ['closed 101 0']])
    })
  }

  it('leaves nothing behind when its client goes in the turn of the 101, whether the 101 is held or not', async () => {
    for (const isHeld of [true, false]) {
      const { commit, tunnels, upstream, wire, service, trail } = await uncommitted((going) =>
        going.destroy(),
      )
      if (!isHeld) commit.finish(undefined)
      service.write('words')
      await until(() => tunnels.taken === 0 && upstream.destroyed)
      commit.finish(undefined)
      await turns()
      assert.deepEqual([wire.received, tunnels.taken, trail.records[1]?.statusCode], ['', 0, 101])
    }
  })

  it('ends at once when all others have been ended meanwhile', async () => {
    const { commit, tunnels, wire, upstream, measured } = await uncommitted()
    tunnels.endAll('draining')
    commit.finish(undefined)
    await turns()
    assert.deepEqual([tunnels.taken, wire.destroyed, upstream.destroyed], [0, true, true])
    assert.equal(measured.at(-1), 'gateway_tunnels_ended_total draining')
  })
})

it('a tunnel of a proxy that names no client is not counted for the clients of its network', () => {
  const tunnels = new Tunnels(4, () => 0)
  const trustedProxies = new BlockList()
  trustedProxies.addAddress('2001:db8::9', 'ipv6')
  const { gateway } = makeGateway({ load: { tunnels }, settings: { trustedProxies } })
  const outcomes = [true, true, true, false].map((viaTrustedProxy) => {
    const { exchange } = makeExchange({ upgrade: 'websocket' })
    const address = viaTrustedProxy ? '2001:db8::9' : '2001:db8::1'
    const res = { switch: () => {}, breakOff: () => {} } as unknown as typeof exchange.res
    const [upstream] = duplexPair()
    const ours = Object.assign(exchange, { res, route: makeRoute(), address, viaTrustedProxy })
    record(gateway, ours)
    return openTunnel(gateway, ours, { fields: [], socket: upstream })
  })
  assert.deepEqual(outcomes, [undefined, undefined, undefined, undefined])
})

it('a tunnel lapses once the responder of its certificate says that it was revoked', async () => {
  const ca = await makeAuthority({ subject: 'CN=Root' })
  const { certPem } = await makeCertificate({ subject: 'CN=c', issuer: ca })
  const leaf = new X509Certificate(certPem)
  let authorized = true
  const judge = (peer: PeerCertificate) => (authorized ? peer : { ...peer, authorized })
  const { gateway } = makeGateway({
    clock: Date.now,
    tls: {
      trust: { authorities: [new X509Certificate(ca.certPem)], lists: [], independent: false },
      ocsp: { judge } as ClientOcsp,
    },
  })
  const secure = { getPeerX509Certificate: () => leaf, authorized: true } as TLSSocket
  const exchange = Object.assign(makeExchange().exchange, { secure })
  assert.equal(lapseOf(gateway, exchange, true), undefined)
  authorized = false
  assert.equal(lapseOf(gateway, exchange, true), 'certificate_refused')
})
