import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'

/**
 * Two ends of one connection within this machine, the far one not read. For what has to go through this process on its way to
 * another one: Node cannot pass on a connection with TLS.
 */
async function connectedPair(): Promise<readonly [near: Socket, far: Socket]> {
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { readonly port: number }
  const near = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  near.on('error', () => {})
  const found = Promise.withResolvers<Socket>()
  near.once('close', () => found.reject(new Error('it was closed')))
  server.on('connection', async (far) => {
    far.on('error', () => {})
    if (near.connecting) await once(near, 'connect').catch(() => {})
    // Any program of this machine may connect too, from another loopback address even by the same port.
    const isNear = far.remotePort === near.localPort && far.remoteAddress === near.localAddress
    if (isNear) found.resolve(far)
    else far.destroy()
  })
  try {
    return [near, await found.promise]
  } finally {
    server.close()
  }
}

/**
 * Passes on everything that comes over the connection, and what comes back, until one side ends.
 *
 * @param unread what has come of it before
 * @returns the other end, for the process that goes on with it
 */
export async function relay(socket: Socket, unread?: Buffer): Promise<Socket> {
  const [near, far] = await connectedPair()
  near.setNoDelay(true)
  socket.once('close', () => near.destroy())
  near.once('close', () => socket.destroySoon())
  if (socket.destroyed) near.destroy()
  if (unread !== undefined) near.write(unread)
  socket.pipe(near)
  near.pipe(socket)
  return far
}
