import assert from 'node:assert/strict'
import { before, it } from 'node:test'
import { onEachDatabase } from '../testing/databases.ts'
import { startTestService, type TestService } from '../testing/service.ts'

/** Not the default, and more than 32 bits. */
const CLIENT_MAX_BYTES = 5 * 1024 * 1024 * 1024
const SIGNED = { 'x-auth-client': 'acme', 'x-auth-method': 'hmac' }

onEachDatabase('POST /api/webhooks/{source}', (database) => {
  let service: TestService
  before(async () => {
    service = await startTestService(database(), { webhookClientMaxBytes: CLIENT_MAX_BYTES })
  })

  const deliver = (options: {
    source?: string
    id?: string | undefined
    payload?: string | Buffer
    headers?: Record<string, string>
  }) =>
    service.send({
      method: 'POST',
      url: `/api/webhooks/${options.source ?? 'billing'}`,
      payload: options.payload ?? '{"test": 2432232314}',
      headers: {
        'content-type': 'application/json',
        ...(options.id !== undefined && { 'webhook-id': options.id }),
        ...(options.headers ?? SIGNED),
      },
    })
  const kept = (id: string) =>
    database().query<{
      client: string
      source: string
      content_type: string
      body: Uint8Array
      received_at: Date
    }>('SELECT client, source, content_type, body, received_at FROM webhooks WHERE webhook_id = $1', [id])

  it('keeps the bytes as they came, with type and time', async () => {
    const payload = Buffer.from([0, 255, 123, 10, 195, 40])
    const headers = { ...SIGNED, 'content-type': 'application/octet-stream' }
    const { status, text } = await deliver({ id: 'msg_bytes', payload, headers })
    assert.equal(status, 202)
    assert.equal(text, '')
    const [row] = await kept('msg_bytes')
    assert.deepEqual(Buffer.from(row?.body ?? []), payload)
    assert.equal(row?.content_type, 'application/octet-stream')
    assert.equal(row?.client, 'acme')
    assert.equal(row?.source, 'billing')
    assert.deepEqual(row?.received_at, service.now())
  })

  it('keeps the same id of one caller and source once, and says so', async () => {
    const responses = await Promise.all(Array.from({ length: 5 }, () => deliver({ id: 'msg_once' })))
    assert.deepEqual(
      responses.map(({ status }) => status),
      Array(5).fill(202),
    )
    const repeated = responses.filter(({ headers }) => headers['idempotency-replayed'] === 'true')
    assert.equal(repeated.length, 4)
    await deliver({ id: 'msg_once', payload: '"another body"' })
    const rows = await kept('msg_once')
    assert.equal(rows.length, 1)
    assert.equal(Buffer.from(rows[0]?.body ?? []).toString(), '{"test": 2432232314}')
    assert.equal(
      (await deliver({ id: 'msg_once', source: 'shop' })).headers['idempotency-replayed'],
      undefined,
    )
    const other = await deliver({ id: 'msg_once', headers: { ...SIGNED, 'x-auth-client': 'other' } })
    assert.equal(other.headers['idempotency-replayed'], undefined)
    assert.equal((await kept('msg_once')).length, 3)
  })

  it('takes bodies that are no JSON, empty, plain text, and up to 1 MiB', async () => {
    assert.equal((await deliver({ id: 'msg_broken', payload: '{' })).status, 202)
    assert.equal((await deliver({ id: 'msg_empty', payload: '' })).status, 202)
    const [empty] = await kept('msg_empty')
    assert.equal(empty?.body.length, 0)
    const untyped = { ...SIGNED, 'content-type': 'text/plain' }
    assert.equal((await deliver({ id: 'msg_text', headers: untyped })).status, 202)
    assert.equal((await deliver({ id: 'msg_large', payload: Buffer.alloc(1024 * 1024) })).status, 202)
    const { status, body } = await deliver({ id: 'msg_larger', payload: Buffer.alloc(1024 * 1024 + 1) })
    assert.equal(status, 413)
    assert.equal(body.code, 'body_too_large')
  })

  it('refuses callers that did not sign, and ids and sources of another form', async () => {
    for (const headers of [
      {},
      { 'x-auth-client': 'acme', 'x-auth-method': 'bearer' },
      { 'x-auth-client': 'acme', 'x-auth-method': 'mtls' },
      { 'x-auth-method': 'hmac' },
    ]) {
      assert.equal((await deliver({ id: 'msg_unsigned', headers })).status, 401)
    }
    for (const id of [undefined, '', 'x'.repeat(257)]) {
      const { status, body } = await deliver({ id })
      assert.equal(status, 400)
      assert.equal(body.errors[0].field, 'webhook-id')
    }
    for (const source of ['a.b', 'a%20b', 'x'.repeat(65)]) {
      assert.equal((await deliver({ id: 'msg_source', source })).status, 400, source)
    }
    assert.deepEqual(await kept('msg_unsigned'), [])
  })

  it('keeps a limited size for one sender, but accepts repetitions and other senders', async () => {
    const full = { ...SIGNED, 'x-auth-client': 'full' }
    const counted = async () => {
      const [row] = await database().query<{ bytes: bigint }>(
        "SELECT bytes FROM webhook_usage WHERE client = 'full'",
      )
      return row?.bytes
    }
    const send = (id: string, payload: string) => deliver({ id, payload, headers: full })
    assert.equal((await send('msg_1', 'x'.repeat(1000))).status, 202)
    assert.equal((await send('msg_2', '')).status, 202)
    assert.equal(await counted(), 1000n + 2n * 1024n)
    await database().query("UPDATE webhook_usage SET bytes = bytes + $1 WHERE client = 'full'", [
      CLIENT_MAX_BYTES,
    ])
    const refused = await send('msg_3', '')
    assert.deepEqual([refused.status, refused.body.code], [429, 'too_many_webhooks'])
    assert.match(String(refused.headers['retry-after']), /^[1-9]\d*$/)
    assert.deepEqual(await kept('msg_3'), [])
    const repeated = await send('msg_2', '')
    assert.deepEqual([repeated.status, repeated.headers['idempotency-replayed']], [202, 'true'])
    assert.equal((await deliver({ id: 'msg_3' })).status, 202)
    await database().query("DELETE FROM webhooks WHERE client = 'full' AND webhook_id = 'msg_1'")
    assert.equal(await counted(), BigInt(CLIENT_MAX_BYTES) + 1024n)
    await database().query("UPDATE webhook_usage SET bytes = bytes - 1025 WHERE client = 'full'")
    assert.equal((await send('msg_3', '')).status, 202)
  })
})
