import { Agent, createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Admission, FIXED_HEADERS, load, Policy, settingsOf } from './peer-policy.ts'

// http-proxy or http-proxy-3, which have the same interface, with the gateway's features added by hand.

interface ProxyServer {
  web(req: IncomingMessage, res: ServerResponse, options: object, failed: (error: Error) => void): void
}
interface Package {
  createProxyServer(options: object): ProxyServer
}

const settings = settingsOf(process.argv[2])
const policy = new Policy(settings)
const proxy = load<Package>(settings.peer).createProxyServer({
  target: `http://127.0.0.1:${settings.upstreamPort}`,
  // Keeps connections between requests.
  agent: new Agent({ keepAlive: true, maxSockets: 256 }),
})

const server: Server = createServer((req, res) => {
  const path = req.url ?? ''
  const admission = policy.admit({
    method: req.method ?? '',
    path,
    authorization: req.headers.authorization,
    agent: req.headers['user-agent'],
    ip: req.socket.remoteAddress,
  })
  if (typeof admission === 'number') {
    res.writeHead(admission, { 'content-length': 0 }).end()
    return
  }
  forward(req, res, admission)
})
server.keepAliveTimeout = 65_000
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }))
process.on('disconnect', () => process.exit(0))

function forward(req: IncomingMessage, res: ServerResponse, admission: Admission): void {
  for (const [name, value] of FIXED_HEADERS) res.setHeader(name, value)
  res.setHeader('X-Request-ID', admission.requestId)
  req.headers['x-request-id'] = admission.requestId
  req.headers['x-forwarded-for'] = req.socket.remoteAddress ?? ''
  req.headers['x-forwarded-proto'] = 'http'
  req.headers['x-auth-subject'] = admission.subject
  res.on('finish', () => policy.close(admission, res.statusCode))
  proxy.web(req, res, {}, () => res.writeHead(502, { 'content-length': 0 }).end())
}
