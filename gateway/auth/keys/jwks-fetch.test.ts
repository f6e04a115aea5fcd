import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { answerJson, serve } from '../tokens/issuer.test-support.ts'
import { fetchJwks } from './jwks-fetch.ts'

const never = new AbortController().signal
const document = { keys: [] }

test('a document that is served with status 200 is given back parsed', async (t) => {
  const { uri } = await serve(t, answerJson(document))
  assert.deepEqual(await fetchJwks(uri, never), document)
})

test('the media type of the response does not matter', async (t) => {
  const { uri } = await serve(t, (_request, response) => {
    response.setHeader('content-type', 'text/plain').end('{"keys":[]}')
  })
  assert.deepEqual(await fetchJwks(uri, never), document)
})

test('a redirect is not followed', async (t) => {
  const target = await serve(t, answerJson(document))
  const { uri } = await serve(t, (_request, response) => {
    response.writeHead(302, { location: target.uri }).end()
  })
  await assert.rejects(fetchJwks(uri, never), /status 302, not 200/)
  assert.equal(target.requests(), 0)
})

test('a status other than 200 is a failure, whatever the body', async (t) => {
  for (const status of [201, 204, 404, 500, 503]) {
    const { uri } = await serve(t, (_request, response) => {
      response.writeHead(status).end(JSON.stringify(document))
    })
    await assert.rejects(fetchJwks(uri, never), new RegExp(`status ${status}, not 200`))
  }
})

test('a document of exactly 256 KiB is read and one byte more is refused', async (t) => {
  const whole = JSON.stringify({ keys: [], pad: '' })
  const source = await serve(t, (_request, response) => {
    response.end(whole.replace('""', `"${'x'.repeat(256 * 1024 - whole.length)}"`))
  })
  await fetchJwks(source.uri, never)
  source.answer = (_request, response) => {
    response.end(whole.replace('""', `"${'x'.repeat(256 * 1024 - whole.length + 1)}"`))
  }
  await assert.rejects(fetchJwks(source.uri, never), /longer than 262144 bytes/)
})

test('the body of an answer that is refused for its status is broken off', async (t) => {
  // The timeout, which would break the fetch off later, does not come.
  stubTimeout(t)
  const closed = Promise.withResolvers<unknown>()
  const { uri } = await serve(t, (_request, response) => {
    response.once('close', closed.resolve)
    response.writeHead(500).write('x'.repeat(10_000_000))
  })
  await assert.rejects(fetchJwks(uri, never), /status 500/)
  await closed.promise
})

for (const [what, body, fault] of [
  ['HTML', '<html></html>', /not JSON/],
  ['nothing', '', /not JSON/],
  ['JSON with a member twice', '{"keys":[],"keys":[]}', /has a member twice/],
  ['bytes that are not UTF-8', Buffer.from([0x22, 0xff, 0x22]), /not UTF-8/],
] as const) {
  test(`an answer of ${what} is a failure`, async (t) => {
    const { uri } = await serve(t, (_request, response) => {
      response.end(body)
    })
    await assert.rejects(fetchJwks(uri, never), fault)
  })
}

test('a server that does not answer is given up after 5 s', async (t) => {
  const asked = Promise.withResolvers<void>()
  const { uri } = await serve(t, () => asked.resolve())
  const timeout = stubTimeout(t)
  const fetching = assert.rejects(fetchJwks(uri, never), /no response in time/)
  await asked.promise
  assert.equal(timeout.ms, 5_000)
  timeout.elapse()
  await fetching
})

test('a fetch is given up when its caller gives up', async (t) => {
  // However slow the machine is, the fetch does not end for lack of time.
  stubTimeout(t)
  const asked = Promise.withResolvers<void>()
  const { uri } = await serve(t, () => asked.resolve())
  const caller = new AbortController()
  const fetching = assert.rejects(fetchJwks(uri, caller.signal), /aborted/)
  await asked.promise
  caller.abort()
  await fetching
})

/** Replaces AbortSignal.timeout, so that no test waits for five seconds. */
function stubTimeout(t: TestContext): { ms: number; elapse: () => void } {
  const controller = new AbortController()
  const timeout = { ms: 0, elapse: () => controller.abort(new DOMException('timed out', 'TimeoutError')) }
  t.mock.method(AbortSignal, 'timeout', (ms: number) => {
    timeout.ms = ms
    return controller.signal
  })
  return timeout
}
