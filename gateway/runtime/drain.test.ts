import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeGateway } from '../stages/stage.test-support.ts'
import { drain } from './drain.ts'

for (const [when, drainMs, hurry] of [
  ['its deadline', 1, new Promise<void>(() => {})],
  ['a second signal', 600_000, Promise.resolve()],
] as const) {
  test(`at ${when}, a drain ends the calls of clients that have left, and does not wait for their responses`, async () => {
    const closed = Promise.withResolvers<void>()
    const ends: string[] = []
    const { gateway } = makeGateway()
    const { trail, settings, load } = gateway
    Object.assign(gateway, {
      settings: { ...settings, timeouts: { ...settings.timeouts, drainMs } },
      upstreams: { close: () => closed.promise },
      acceptedWebhooks: { maintain: () => {} },
      acceptedSignatures: { maintain: () => {} },
      deliveries: { maintain: () => {} },
      revocations: { maintain: () => {}, isSafe: true },
      trail: Object.assign(trail, { end: async (reason: string) => ends.push(reason) }),
    })
    Object.assign(load.tunnels, { endAll: () => {} })
    load.orphans.add({
      status: 0,
      isSent: true,
      abort: () => closed.resolve(),
      clientGone: () => assert.fail(),
    })
    await drain({ gateway }, { reason: 'SIGTERM', graceMs: 0, hurry }, { listeners: [], graceOver: () => {} })
    assert.deepEqual(ends, ['SIGTERM'])
  })
}
