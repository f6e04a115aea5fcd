import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { PassThrough, Readable } from 'node:stream'
import { describe, it, type TestContext } from 'node:test'
import { bodyOf, ok, pair, send, until, type upstreamsTo } from './scripted.test-support.ts'

/** A body that a service takes for a request when it does not read bodies. */
const STOLEN = 'GET /stolen HTTP/1.1\r\nhost: service.test\r\n\r\n'

interface Careless {
  /** Targets of all that the service took for requests. */
  readonly carriedOut: string[]
  /** Connections that it has. */
  readonly connections: () => number
  readonly upstream: ReturnType<typeof upstreamsTo>
}

/**
 * A service such as Python's http.server: it never reads a body, and takes what follows a head for the next head. It
 * serves the requests of a connection one after the other, the second a little later than the first.
 */
async function careless(
  t: TestContext,
  options: { readonly status?: string; readonly obeysClose?: boolean } = {},
): Promise<Careless> {
  const { status = '200 OK', obeysClose = true } = options
  const carriedOut: string[] = []
  const serve = async (socket: Socket) => {
    const heads: string[] = []
    let text = ''
    socket.on('data', (bytes: Buffer) => {
      text += bytes.toString('latin1')
      for (let end = text.indexOf('\r\n\r\n'); end >= 0; end = text.indexOf('\r\n\r\n')) {
        heads.push(text.slice(0, end))
        text = text.slice(end + 4)
      }
    })
    while (!socket.destroyed) {
      await until(() => heads.length > 0 || socket.destroyed)
      const head = heads.shift()
      if (head === undefined) return
      const target = / (\S+)/.exec(head)?.[1] ?? ''
      if (target === '/stolen') await new Promise((resolve) => setTimeout(resolve, 30))
      carriedOut.push(target)
      const response = head.startsWith('HEAD ') ? ok(target).replace(target, '') : ok(target)
      socket.write(response.replace('200 OK', target === '/first' ? status : '200 OK'))
      if (obeysClose && /^connection: close$/im.test(head)) {
        socket.end()
        return
      }
    }
  }
  const { scripted, upstream } = await pair(t, { onConnection: (socket) => void serve(socket) })
  return { carriedOut, connections: () => scripted.connections, upstream }
}

const inChunks = () => Readable.from([Buffer.from(STOLEN)])
const whole = () => {
  const body = new Readable({ read() {} })
  body.push(STOLEN)
  body.push(null)
  return body
}
const LENGTH = ['host', 'service.test', 'content-length', String(STOLEN.length)]

describe('a body that the service leaves unread', () => {
  for (const method of ['GET', 'HEAD', 'DELETE', 'OPTIONS', 'PROPFIND']) {
    for (const obeysClose of [true, false]) {
      it(`with ${method} never brings its response to another caller, when the service ${obeysClose ? 'closes' : 'keeps'} the connection`, async (t) => {
        const { carriedOut, connections, upstream } = await careless(t, { obeysClose })
        for (let i = 0; i < 5; i++) {
          await send(upstream, { method, target: '/first', headers: LENGTH, body: whole() }).over
          assert.equal(bodyOf(await send(upstream, { target: '/mine' }).over), '/mine')
        }
        assert.ok(connections() > 5)
        // The service was told that nothing more comes on this connection.
        if (obeysClose) assert.ok(!carriedOut.includes('/stolen'))
      })
    }

    it(`with ${method} and in chunks never brings its response to another caller`, async (t) => {
      const { upstream } = await careless(t, { obeysClose: false })
      await send(upstream, { method, target: '/first', body: inChunks() }).over
      assert.equal(bodyOf(await send(upstream, { target: '/mine' }).over), '/mine')
    })
  }

  for (const status of ['302 Found', '401 Unauthorized', '404 Not Found', '413 Too Large', '501 No']) {
    it(`with POST and a response of ${status} never brings its response to another caller`, async (t) => {
      const { upstream } = await careless(t, { status })
      for (let i = 0; i < 5; i++) {
        const headers = LENGTH
        await send(upstream, { method: 'POST', target: '/first', headers, body: whole() }).over
        assert.equal(bodyOf(await send(upstream, { target: '/mine' }).over), '/mine')
      }
    })
  }
})

describe('a response that comes before the request is whole', () => {
  it('is the last of its connection, also when the rest of the request goes up before it ends', async (t) => {
    const { scripted, upstream } = await pair(t, {
      onConnection: (socket) =>
        socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na')),
      onRequest: ({ socket, head }) => socket.write(head.startsWith('POST') ? 'b' : ok('x')),
    })
    const body = new PassThrough()
    const first = send(upstream, { method: 'POST', body })
    body.write('part')
    await until(() => first.received.status === 200)
    body.end('rest')
    assert.equal(bodyOf(await first.over), 'ab')
    await send(upstream).over
    assert.equal(scripted.connections, 2)
  })
})

describe('a body that the service has read', () => {
  for (const method of ['POST', 'PUT', 'PATCH']) {
    it(`with ${method} lets its connection be used again`, async (t) => {
      const { scripted, upstream } = await pair(t, { onRequest: ({ socket }) => socket.write(ok('x')) })
      for (let i = 0; i < 3; i++) await send(upstream, { method, headers: LENGTH, body: whole() }).over
      assert.equal(scripted.connections, 1)
    })
  }
})
