import assert from 'node:assert/strict'
import { type AddressInfo, connect } from 'node:net'
import { it } from 'node:test'
import { GET, serving, until } from './conformance/client.test-support.ts'

it('a client that waits in the accept queue when the listener closes is served, not reset', async (t) => {
  const { http, seen } = await serving(t)
  const { port } = http.server.address() as AddressInfo
  const clients = Array.from({ length: 40 }, () => {
    const client = { text: '', over: '' }
    const socket = connect({ port, host: '127.0.0.1' })
    socket.on('data', (piece) => {
      client.text += piece.toString('latin1')
    })
    socket.on('error', (error: NodeJS.ErrnoException) => {
      client.over = error.code ?? 'error'
    })
    socket.on('close', () => {
      client.over ||= 'end'
    })
    socket.write('GET / HTTP/1.1\r\nConnection: close\r\n\r\n')
    return client
  })
  // Now all clients have asked the system to connect, and the loop has not turned, so none was accepted.
  await new Promise((resolve) => process.nextTick(resolve))
  const closed = http.close()
  // Nor does it turn for a while, because the machine is busy.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 600)
  await until(() => clients.every(({ over }) => over !== ''))
  assert.deepEqual(
    clients.map(({ text, over }) => `${text.slice(9, 12)} ${over}`),
    clients.map(() => '200 end'),
  )
  assert.equal(seen.length, 40)
  await closed
})

it('new connections do not keep a closing listener open', async (t) => {
  const { http } = await serving(t)
  const { port } = http.server.address() as AddressInfo
  let over = false
  const open = () => {
    if (over) return
    const socket = connect({ port, host: '127.0.0.1' })
    socket.on('error', () => {})
    socket.on('close', open)
    socket.end('GET / HTTP/1.1\r\nConnection: close\r\n\r\n')
  }
  for (let i = 0; i < 8; i++) open()
  const closed = http.close()
  await until(() => !http.server.listening)
  over = true
  await closed
})

it('a connection counts as idle only when it has been idle for the given time', async (t) => {
  const { connect: open, http, time } = await serving(t)
  const fresh = await open()
  const used = await open()
  time.nowMs = 60
  used.send(GET)
  await until(() => used.text() !== '')
  time.nowMs = 100
  http.closeIdleConnections(100)
  await fresh.gone()
  assert.equal(used.served.destroyed, false)
  used.send(GET)
  await until(() => used.text().split('HTTP/1.1 200').length === 3)
  time.nowMs = 160
  http.closeIdleConnections(100)
  assert.equal(used.served.destroyed, false)
  time.nowMs = 200
  http.closeIdleConnections(100)
  await used.gone()
})
