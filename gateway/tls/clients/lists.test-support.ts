import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { connect, createServer, type TLSSocket } from 'node:tls'
import { readPem } from '../listener/pem.ts'

export function derOf(pem: string): Buffer {
  const blocks = readPem(pem)
  assert.ok(typeof blocks !== 'string' && blocks[0])
  return blocks[0].der
}

/** True when OpenSSL accepts the client in a handshake with a server that has the revocation list. */
export async function isAccepted(
  client: { readonly cert: string; readonly key: string },
  { ca, crl }: { readonly ca: string; readonly crl: string },
): Promise<boolean> {
  const server = createServer({ ...client, ca, crl, requestCert: true, rejectUnauthorized: false })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const caller = connect({ ...client, port, host: '127.0.0.1', rejectUnauthorized: false })
  const [socket] = (await once(server, 'secureConnection')) as [TLSSocket]
  const { authorized } = socket
  caller.destroy()
  socket.destroy()
  server.close()
  return authorized
}
