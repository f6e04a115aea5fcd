import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { type AddressInfo, createServer as createRawServer } from 'node:net'
import { describe, it, type TestContext } from 'node:test'
import { Decider } from './decider.ts'

const LONG_MS = 60_000
const CALLER = { address: '192.0.2.1', closed: false, requestId: 'request-1' }
const ELSEWHERE = { ...CALLER, address: '198.51.100.7' }

interface Answer {
  readonly statusCode?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly text?: string
}

/** A decider whose answers the test gives. */
function harness(answer: Answer | (() => Answer | Error | Promise<Answer>), cacheMs = 0) {
  const state = { asked: [] as string[], steadyMs: 0, faults: [] as string[] }
  const decider = new Decider(
    { url: 'https://decider.example/', timeoutMs: 200, cacheMs },
    {
      steadyClock: () => state.steadyMs,
      onFault: (cause) => state.faults.push(cause),
      send: async ({ body }) => {
        state.asked.push(String(body))
        const given = await (typeof answer === 'function' ? answer() : answer)
        if (given instanceof Error) throw given
        const { statusCode = 200, text = '{"decision":true}' } = given
        const headers = { 'content-type': 'application/json', ...given.headers }
        return { statusCode, headers, body: Buffer.from(text) }
      },
    },
  )
  return { decider, state }
}

/** A decider over HTTP. */
async function served(t: TestContext, listener: RequestListener, timeoutMs = LONG_MS) {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.close()
    server.closeAllConnections()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/access/v1/evaluation`
  return { url, decider: new Decider({ url, timeoutMs, cacheMs: 0 }, { onFault: () => undefined }) }
}

describe('a decider', () => {
  it('lets a request through only by status 200 with a decision that is true', async () => {
    for (const [answer, outcome] of [
      [{ text: '{"decision":true}' }, 'allowed'],
      [{ text: ' {"more":1,"\\u0064ecision" : true, "context":{}}' }, 'allowed'],
      [{ text: '{"decision":false}' }, 'denied'],
      [{ text: '{"decision":"true"}' }, 'failed'],
      [{ text: '{"decision":"maybe"}' }, 'failed'],
      [{ text: '{"decision":1}' }, 'failed'],
      [{ text: '{"decision":null}' }, 'failed'],
      [{ text: '{"decision":[true]}' }, 'failed'],
      [{ text: '{"Decision":true}' }, 'failed'],
      [{ text: '{"decision":false,"decision":true}' }, 'failed'],
      [{ text: '{"decision":true,"\\u0064ecision":false}' }, 'failed'],
      [{ text: '{"result":{"decision":true}}' }, 'failed'],
      [{ text: '[{"decision":true}]' }, 'failed'],
      [{ text: '"decision"' }, 'failed'],
      [{ text: 'true' }, 'failed'],
      [{ text: '' }, 'failed'],
      [{ text: '{"decision":true}}' }, 'failed'],
      [{ text: '\ufeff{"decision":true}' }, 'failed'],
      [{ headers: { 'content-type': 'text/plain' } }, 'failed'],
      [{ headers: { 'content-type': '' } }, 'failed'],
      [{ headers: { 'x-request-id': 'request-2' } }, 'failed'],
      [{ statusCode: 201 }, 'failed'],
      [{ statusCode: 204, text: '' }, 'failed'],
      [{ statusCode: 403 }, 'failed'],
      [{ statusCode: 500 }, 'failed'],
    ] as const)
      assert.equal(
        (await harness(answer).decider.decide('{}', CALLER)).outcome,
        outcome,
        JSON.stringify(answer),
      )
  })

  it('names its decision in the context, or in X-Request-ID', async () => {
    const header = { 'x-request-id': 'request-1' }
    for (const [answer, id] of [
      [{ text: '{"decision":true,"context":{"id":"d-1"}}', headers: header }, 'd-1'],
      [{ text: '{"decision":false,"context":{"id":"d-1"}}' }, 'd-1'],
      [{ headers: header }, 'request-1'],
      [{ text: '{"decision":true,"context":{"id":7}}', headers: header }, 'request-1'],
      [{ text: '{"decision":true,"context":{"id":"a b"}}' }, undefined],
      [{ text: `{"decision":true,"context":{"id":"${'x'.repeat(129)}"}}` }, undefined],
      [{ text: '{"decision":true,"context":"id"}' }, undefined],
    ] as const)
      assert.equal((await harness(answer).decider.decide('{}', CALLER)).id, id, JSON.stringify(answer))
  })

  it('gets the question as JSON with the id of the request', async (t) => {
    const seen: unknown[] = []
    const { decider } = await served(t, async (req, res) => {
      const chunks: Buffer[] = []
      for await (const chunk of req) chunks.push(chunk)
      const { 'content-type': type, 'x-request-id': id } = req.headers
      seen.push([req.method, req.url, type, id, Buffer.concat(chunks).toString()])
      res.setHeader('content-type', 'application/json').end('{"decision":true}')
    })
    assert.equal((await decider.decide('{"a":1.0}', CALLER)).outcome, 'allowed')
    assert.deepEqual(seen, [['POST', '/access/v1/evaluation', 'application/json', 'request-1', '{"a":1.0}']])
  })

  it('that redirects, closes, answers without an end, or says nothing in time gives no decision', async (t) => {
    const allows = await served(t, (_req, res) => {
      res.setHeader('content-type', 'application/json').end('{"decision":true}')
    })
    const json = { 'content-type': 'application/json' }
    let dribbling: NodeJS.Timeout | undefined
    t.after(() => clearInterval(dribbling))
    for (const [listener, timeoutMs, cause] of [
      [(_req, res) => res.writeHead(307, { location: allows.url }).end(), LONG_MS, /status 307, not 200$/],
      [(req) => req.socket.destroy(), LONG_MS, /: (?:other side closed|read ECONNRESET|socket hang up)/],
      [
        (_req, res) => res.writeHead(200, json).end(`${' '.repeat(1e7)}{"decision":true}`),
        LONG_MS,
        /longer than 65536/,
      ],
      [
        (_req, res) => {
          res.writeHead(200, { ...json, 'content-length': '99' })
          res.write('{"decision":true}', () => res.destroy())
        },
        LONG_MS,
        /broke off/,
      ],
      [() => undefined, 50, /no response in time|did not end in time/],
      [
        (_req, res) => {
          res.writeHead(200, json).write('{"decision":true}')
          dribbling = setInterval(() => res.write(' '), 10)
        },
        200,
        /in time/,
      ],
    ] as const satisfies (readonly [RequestListener, number, RegExp])[]) {
      const { decider } = await served(t, listener, timeoutMs)
      const decision = await decider.decide('{}', CALLER)
      assert.equal(decision.outcome, 'failed')
      assert.match(decision.cause ?? '', cause)
    }
  })

  it('that answers more often than it is asked answers no later question', async (t) => {
    const answer = (decision: boolean) => {
      const body = JSON.stringify({ decision })
      const type = 'Content-Type: application/json'
      return `HTTP/1.1 200 OK\r\n${type}\r\nContent-Length: ${body.length}\r\n\r\n${body}`
    }
    const server = createRawServer((socket) => {
      socket.on('error', () => undefined)
      socket.on('data', () => socket.write(answer(false) + answer(true)))
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.after(() => server.close())
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
    const decider = new Decider({ url, timeoutMs: LONG_MS, cacheMs: 0 }, { onFault: () => undefined })
    for (let n = 0; n < 5; n++)
      assert.notEqual((await decider.decide('{}', CALLER)).outcome, 'allowed', `question ${n}`)
  })

  it('is asked each time where nothing is cached', async () => {
    const { decider, state } = harness({})
    await Promise.all([decider.decide('{}', CALLER), decider.decide('{}', CALLER)])
    await decider.decide('{}', CALLER)
    assert.equal(state.asked.length, 3)
  })

  it('is asked once about equal questions for the time of the cache, and again at once if it gave no decision', async () => {
    let allows: boolean | undefined = true
    const { decider, state } = harness(() => ({ text: `{"decision":${allows ?? '"maybe"'}}` }), 1000)
    const outcomeOf = async (question: string) => (await decider.decide(question, CALLER)).outcome
    assert.deepEqual(await Promise.all(['a', 'a', 'b'].map(outcomeOf)), ['allowed', 'allowed', 'allowed'])
    allows = false
    state.steadyMs += 999
    assert.deepEqual(await Promise.all(['a', 'c'].map(outcomeOf)), ['allowed', 'denied'])
    assert.deepEqual(state.asked, ['a', 'b', 'c'])
    state.steadyMs += 1
    allows = undefined
    assert.deepEqual([await outcomeOf('a'), await outcomeOf('c')], ['failed', 'denied'])
    allows = true
    assert.equal(await outcomeOf('a'), 'allowed')
    assert.equal(state.faults.length, 1)
  })

  it('gets a pause after five failures in a row, but not for a status that refuses one question alone', async () => {
    let answer: Answer | Error = new Error('gone')
    const { decider, state } = harness(() => answer)
    const outcomes = async (count: number, caller = CALLER) => {
      const all: string[] = []
      for (let n = 0; n < count; n++) all.push((await decider.decide('{}', caller)).outcome)
      return all
    }
    assert.deepEqual(await outcomes(6), [...Array(5).fill('failed'), 'breaker_open'])
    assert.deepEqual(await outcomes(1, ELSEWHERE), ['failed'])
    answer = {}
    assert.deepEqual(await outcomes(1, ELSEWHERE), ['breaker_open'])
    state.steadyMs += 30_000
    assert.deepEqual(await outcomes(2), ['allowed', 'allowed'])
    answer = { statusCode: 413 }
    assert.deepEqual(new Set(await outcomes(9)), new Set(['failed']))
    assert.equal(state.faults.length, 2)
  })
})
