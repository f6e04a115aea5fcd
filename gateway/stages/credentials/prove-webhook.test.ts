import assert from 'node:assert/strict'
import { createHmac, createSecretKey } from 'node:crypto'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { ReplayMemory } from '../../auth/replay.ts'
import { WEBHOOK_LIFETIME_MS } from '../../auth/webhook-signature.ts'
import { schemeOf } from '../../config/clients/webhook-schemes.ts'
import { BodyRoom } from '../../edge/bodies/body-room.ts'
import { makeExchange, makeGateway, makePrincipal, NOW_MS } from '../stage.test-support.ts'
import { proveWebhook } from './prove-webhook.ts'

test('a webhook that is sent again with a slow body is never accepted twice', async () => {
  const secret = Buffer.alloc(32, 1)
  const body = '{"paid":true}'
  const timestamp = String(NOW_MS / 1000)
  const signature = createHmac('sha256', secret).update(`id.${timestamp}.${body}`).digest('base64')
  const key = {
    ...{ name: 'key', scheme: schemeOf('standard'), principal: makePrincipal({ client: 'acme' }) },
    secrets: [createSecretKey(secret)],
  }
  let nowMs = NOW_MS
  const clock = () => nowMs
  const { gateway } = makeGateway({
    clients: { table: { byKeyId: new Map([['key', key]]), byWebhookClient: new Map() } },
    acceptedWebhooks: new ReplayMemory({ lifetimeMs: WEBHOOK_LIFETIME_MS, clock }),
    load: { bodyRoom: new BodyRoom() },
    clock,
  } as never)
  const sent = async (waitMs: number) => {
    const headers = {
      'webhook-id': 'id',
      'webhook-timestamp': timestamp,
      'webhook-signature': `v1,${signature}`,
    }
    const { exchange } = makeExchange({ method: 'POST', headers: { ...headers, 'x-api-key': 'key' } })
    const slow = async function* () {
      nowMs += waitMs
      yield Buffer.from(body)
    }
    Object.assign(exchange.req, { body: Readable.from(slow()) })
    return await proveWebhook(gateway, exchange)
  }
  assert.equal(await sent(0), undefined)
  const replayed = await sent(0)
  assert.deepEqual([replayed?.code, replayed?.client], ['webhook_replayed', 'acme'])
  nowMs = NOW_MS + 300_000
  const late = await sent(WEBHOOK_LIFETIME_MS - 300_000)
  assert.deepEqual([late?.code, late?.client], ['invalid_signature', 'acme'])
})
