import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { LONGER } from '../../../e2e/long-runs.ts'
import { scribe, serverOf, wireTo } from './scribe.test-support.ts'
import { turns } from './wire.test-support.ts'

const LINES = [
  'Host: a\r\n',
  'X-A: 1\r\n',
  'X-A: 12\r\n',
  'x-a:1\r\n',
  'Content-Length: 3\r\n',
  'Transfer-Encoding: chunked\r\n',
  'Transfer-Encoding: chunked\r\n',
  'Connection: keep-alive\r\n',
  'Connection: upgrade\r\n',
  'X_A: 1\r\n',
  ' folded\r\n',
  `X-Long: ${'x'.repeat(2048)}\r\n`,
  'X-Many: 1\r\n'.repeat(33),
]
const start = fc.constantFrom(
  'GET / HTTP/1.1',
  'GET / HTTP/1.1',
  'POST /b HTTP/1.1',
  'HEAD /c HTTP/1.1',
  'GET /d HTTP/1.0',
  'no HTTP',
)
const fields = fc.array(fc.constantFrom(...LINES), { maxLength: 4 }).map((lines) => lines.join(''))

/** One connection, and a function that tells what becomes of one request on it. */
function connection() {
  const handler = scribe()
  const wire = wireTo(serverOf(handler))
  const outcome = async (text: string, cut: number) => {
    const [seenBefore, receivedBefore] = [handler.seen.length, wire.received.length]
    wire.send(text.slice(0, cut))
    await turns(1)
    wire.send(text.slice(cut))
    await turns()
    const seen = handler.seen
      .slice(seenBefore)
      .map(({ res, body, closes, ...facts }) => ({ ...facts, closes, hasBody: body !== null }))
    return { seen, received: wire.received.slice(receivedBefore), ended: wire.writableEnded }
  }
  return { outcome }
}

test('a request is read and answered as if it were the first of its connection, whatever came before it', async () => {
  const requests = fc
    .tuple(
      fc.array(fields, { minLength: 1, maxLength: 2 }),
      fc.array(fc.tuple(start, fc.nat(1), fc.option(fc.nat(100))), { minLength: 2, maxLength: 8 }),
    )
    .map(([blocks, heads]) =>
      heads.map(([first, block, cut]) => {
        const lines = blocks[block % blocks.length] as string
        const body = lines.includes('chunked') ? '3\r\nabc\r\n0\r\nX-T: 1\r\n\r\n' : ''
        const text = `${first}\r\n${lines}\r\n${body || (lines.includes('Length: 3') ? 'abc' : '')}`
        return [text, Math.min(cut ?? text.length, text.length)] as const
      }),
    )
  await fc.assert(
    fc.asyncProperty(requests, async (all) => {
      const used = connection()
      for (const [text, cut] of all) {
        const there = await used.outcome(text, cut)
        assert.deepEqual(there, await connection().outcome(text, cut))
        if (there.ended) return
      }
    }),
    { numRuns: 400 * LONGER },
  )
})
