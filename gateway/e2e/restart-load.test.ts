import assert from 'node:assert/strict'
import { Agent } from 'node:http'
import { connect } from 'node:http2'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { contradicted, unpaired } from './audit-pairs.ts'
import { call } from './client.ts'
import { type Asked, ask, type Received } from './http2-client.ts'
import { LONGER } from './long-runs.ts'
import { startGateway, until } from './running-gateway.ts'
import { startUpstream } from './test-upstream.ts'

/** 50 in a long run. */
const RESTARTS = Math.floor(2.5 * LONGER)
const HTTP1_CLIENTS = 16
const HTTP2_CLIENTS = 6
const STREAMS = 3

type Client = (asked: Asked) => Promise<Pick<Received, 'status' | 'body'>>

test('under load, no GET and no POST on kept connections of HTTP/1.1 and HTTP/2 fails because of restarts', async (t) => {
  const upstream = await startUpstream(async (req, res) => {
    let bytes = 0
    for await (const piece of req) bytes += piece.length
    setTimeout(() => res.end(`whole ${bytes}`), 3 * Math.random())
  })
  const config = { upstream: upstream.url, http2: true, routes: [{ path: '/*', auth: ['none'] }] }
  const gateway = await startGateway({ config })
  t.after(() => {
    gateway.kill()
    upstream.close()
  })
  const failed: unknown[] = []
  const seen = new Map<string, number>()
  let over = false
  let asked = 0
  let disowned = 0

  const overHttp1 = (): Client => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    return (asked) => call(gateway.url, { ...asked, agent })
  }
  /** Repeats a request that GOAWAY leaves out, with the same id: the trail shows if the gateway handled both. */
  const overHttp2 = (): Client => {
    const begin = () => connect(gateway.url).on('error', (error) => failed.push(error))
    let session = begin()
    return async (asked) => {
      for (;;) {
        if (session.closed || session.destroyed) session = begin()
        try {
          return await ask(session, asked)
        } catch (error) {
          if (!/NGHTTP2_REFUSED_STREAM/.test(String(error))) throw error
          disowned++
        }
      }
    }
  }
  const keepAsking = async (client: Client, method: string, pauseMs: number) => {
    while (!over) {
      const id = `load-${asked++}`
      const body = method === 'POST' ? 'x'.repeat(300 + (asked % 5) * 4000) : undefined
      await client({ method, headers: { 'x-request-id': id }, ...(body && { body }) }).then(
        (answer) => {
          seen.set(id, answer.status)
          if (answer.status !== 200 || answer.body !== `whole ${body?.length ?? 0}`) failed.push([id, answer])
        },
        (error) => failed.push([id, method, error]),
      )
      await sleep(pauseMs * Math.random())
    }
  }
  const clients = [
    ...Array.from({ length: HTTP1_CLIENTS }, overHttp1),
    ...Array.from({ length: HTTP2_CLIENTS }, overHttp2).flatMap((client) => Array(STREAMS).fill(client)),
  ].map((client, at) =>
    keepAsking(client, at % 2 ? 'POST' : 'GET', [0, 0, 2, 2, 20, 20, 100, 100][at % 8] as number),
  )
  try {
    for (let restart = 0; restart < RESTARTS; restart++) {
      const answered = seen.size
      await until(() => (seen.size >= answered + 5 * clients.length ? true : undefined))
      const { restarted, text } = await gateway.restart()
      assert.ok(restarted, text)
    }
  } finally {
    over = true
    await Promise.all(clients)
  }
  assert.deepEqual(failed, [])
  await until(() => (unpaired(gateway.audit()).length === 0 ? true : undefined))
  assert.deepEqual(contradicted(gateway.audit(), seen), [])
  t.diagnostic(`${seen.size} requests, ${disowned} of them sent again`)
})
