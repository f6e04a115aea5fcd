import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createIssuer, type TestIssuer } from '../testing/test-issuer.ts'

export interface SeenRequest {
  readonly method: string
  readonly url: string
  readonly headers: IncomingMessage['headers']
  readonly rawHeaders: readonly string[]
  readonly body: string
}

/** A real HTTP service that remembers its requests and publishes its issuer's keys. */
export interface TestUpstream {
  readonly server: Server
  readonly url: string
  readonly issuer: TestIssuer
  readonly seen: SeenRequest[]
  close(): void
}

/** Starts the service, by default on any port. By default it responds with the request as JSON. */
export async function startUpstream(listener?: RequestListener, port = 0): Promise<TestUpstream> {
  const issuer = await createIssuer()
  const seen: SeenRequest[] = []
  const server = createServer((req, res) => {
    if (req.url === '/.well-known/jwks.json') {
      res.setHeader('content-type', 'application/json')
      res.end(JSON.stringify(issuer.jwks))
    } else if (listener !== undefined) listener(req, res)
    else {
      const chunks: Buffer[] = []
      req.on('data', (chunk: Buffer) => chunks.push(chunk))
      req.on('end', () => {
        const request: SeenRequest = {
          method: req.method ?? '',
          url: req.url ?? '',
          headers: req.headers,
          rawHeaders: req.rawHeaders,
          body: Buffer.concat(chunks).toString('utf8'),
        }
        seen.push(request)
        res.setHeader('content-type', 'application/json')
        res.end(JSON.stringify(request))
      })
    }
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  return {
    server,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    issuer,
    seen,
    close: () => {
      server.close()
      server.closeAllConnections()
    },
  }
}
