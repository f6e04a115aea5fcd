import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { describe, it, type TestContext } from 'node:test'
import { GET, until } from '../../edge/http1/conformance/client.test-support.ts'
import {
  type Acts,
  connectionsOf,
  respondEmpty,
  type Seen,
  scribe,
} from '../../edge/http1/conformance/scribe.test-support.ts'
import type { ParkedConnection } from '../../edge/http1/connections.ts'
import { createHttpServer } from '../../edge/http1/http-server.ts'

const SECOND = 'GET /second HTTP/1.1\r\n\r\n'

/** A client, its socket at the server, and the parked connections. */
async function serving(t: TestContext, acts: Acts) {
  const handler = scribe(acts)
  const connections = connectionsOf(handler)
  const http = createHttpServer(connections)
  http.server.listen(0, '127.0.0.1')
  await once(http.server, 'listening')
  const accepted = once(http.server, 'connection')
  const { port } = http.server.address() as AddressInfo
  const client = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  let text = ''
  client
    .on('error', () => {})
    .on('data', (bytes) => {
      text += bytes
    })
  const [served] = (await accepted) as [Socket]
  t.after(async () => {
    client.destroy()
    served.destroy()
    await http.close()
  })
  const parked: ParkedConnection[] = []
  return {
    seen: handler.seen,
    connections,
    client,
    served,
    parked,
    text: () => text,
    park: () => connections.park((connection) => parked.push(connection)),
    goOn() {
      connections.unpark()
      for (const connection of parked.splice(0)) connection.goOn()
    },
  }
}

/** A client that has sent two requests and closed its half, parked when it has the first response. */
async function parkedWithRequest(t: TestContext) {
  const acts: Acts = {
    begun: (one) => {
      if (one.target === '/second') respondEmpty(one)
    },
  }
  const context = await serving(t, acts)
  const { seen, client, served, parked, park } = context
  client.write(GET + SECOND)
  await until(() => seen.length === 1)
  const { res } = seen[0] as Seen
  served.once('end', () => {
    // Writes at once: otherwise the server would believe that the client is gone.
    res.writeHead({ status: 200, lines: '', contentLength: 2, dated: true })
    res.write(Buffer.from('a'))
    park()
    res.write(Buffer.from('b'))
    res.end()
  })
  client.end()
  await until(() => parked.length === 1)
  return context
}

describe('a parked connection', () => {
  it('has the next request of a client that has closed its half', async (t) => {
    const { parked, served, text } = await parkedWithRequest(t)
    await until(() => text().endsWith('ab'))
    assert.equal(served.destroyed, false)
    assert.equal(String(parked[0]?.unread), SECOND)
  })

  it('goes on with that request, and closes', async (t) => {
    const { client, connections, seen, text, goOn } = await parkedWithRequest(t)
    goOn()
    await once(client, 'end')
    assert.equal(text().match(/HTTP\/1.1 200 OK/g)?.length, 2)
    assert.deepEqual(
      seen.map(({ target, closes }) => [target, closes]),
      [
        ['/', 1],
        ['/second', 1],
      ],
    )
    await connections.emptied()
  })

  it('is forgotten when its client resets it, and not served again', async (t) => {
    const { client, served, connections, park, goOn } = await serving(t, {})
    park()
    client.resetAndDestroy()
    await connections.emptied()
    goOn()
    const { mock } = t.mock.method(served, 'destroy')
    connections.closeAll()
    assert.equal(mock.callCount(), 0)
  })

  it('ends when it goes on, if its client has closed its half meanwhile', async (t) => {
    const { client, served, connections, park, goOn } = await serving(t, {})
    park()
    client.end()
    await until(() => served.readableEnded)
    goOn()
    await connections.emptied()
  })
})
