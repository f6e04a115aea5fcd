import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { Field } from '../../edge/syntax/field.ts'
import { ok, type ScriptedOptions, scriptedUpstream, send, upstreamsTo } from './scripted.test-support.ts'

/** Closes the first connection without a response, and responds on the others. */
const LOSES_ONE: ScriptedOptions = {
  onRequest: ({ socket, connection }) => (connection === 1 ? socket.destroy() : socket.write(ok('late'))),
}

/** Sends a request that is numbered anew for each attempt. @returns what was told of the attempts */
async function sendNumbered(t: TestContext, urls: readonly string[]): Promise<string[]> {
  const upstream = upstreamsTo(urls)
  t.after(() => upstream.close())
  const told: string[] = []
  const fields = [new Field('host', 'h'), new Field('attempt', '1')]
  let sent = 0
  const attempts = {
    began: (url: string) => {
      told.push(url)
      sent += 1
      fields[1] = new Field('attempt', String(sent))
      return sent > 1
    },
    failed: (error: string) => told.push(error),
  }
  const received = await send(upstream, { fields, attempts } as object).over
  assert.equal(received.status, 200)
  return told
}

describe('whoever watches the attempts of a request', () => {
  it('hears of each, and gives each fields of its own', async (t) => {
    const scripted = await scriptedUpstream(LOSES_ONE)
    t.after(() => scripted.close())
    assert.deepEqual(await sendNumbered(t, [scripted.url]), [scripted.url, 'broken', scripted.url])
    assert.deepEqual(
      scripted.requests.map(({ head }) => /attempt: (\d)/.exec(head)?.[1]),
      ['1', '2'],
    )
  })

  it('hears of an upstream that could not be reached', async (t) => {
    const scripted = await scriptedUpstream({ onRequest: ({ socket }) => socket.write(ok('here')) })
    const dead = await scriptedUpstream({})
    t.after(() => scripted.close())
    await dead.close()
    const told = await sendNumbered(t, [scripted.url, dead.url])
    assert.deepEqual(told, [dead.url, 'unreachable', scripted.url])
    assert.match(scripted.requests[0]?.head ?? '', /attempt: 2/)
  })
})
