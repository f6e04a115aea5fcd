import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { MANDATORY_HEADERS } from '../http/rules/mandatory-headers.ts'
import { newRequestId } from '../http/rules/request-id.ts'
import { createServer } from '../http/syntax/status-codes.ts'
import type { Exposition } from './metrics.ts'

interface AdminResponse {
  readonly status: number
  readonly contentType: string
  readonly body: string
}

/** The process's own open files: see `open-files.ts`. */
const MAX_CONNECTIONS = 100

interface Parts {
  readonly metrics: Exposition
  /** Why the gateway is not ready, in a few words; undefined when it is. */
  readonly readiness: () => string | undefined
  /** What does not work although the gateway is ready; undefined when everything does. */
  readonly degradation: () => string | undefined
}

/**
 * The admin listener: /metrics, /healthz (the process runs), /readyz (it should get traffic). Bound to loopback by
 * default.
 */
export function createAdminServer(parts: Parts): Server {
  const server = createServer({ requireHostHeader: false })
  const take = (req: IncomingMessage, res: ServerResponse) => {
    respondTo(parts, req).then(
      (made) => send(req, res, made),
      (fault: unknown) => send(req, res, text(500, `${String(fault)}\n`)),
    )
  }
  server.maxConnections = MAX_CONNECTIONS
  server.on('request', take)
  // Otherwise Node responds itself, without the mandatory headers.
  server.on('checkExpectation', take)
  server.on('clientError', (_error, socket) => socket.destroy())
  return server
}

async function respondTo(parts: Parts, req: IncomingMessage): Promise<AdminResponse> {
  if (req.method !== 'GET' && req.method !== 'HEAD') return text(405, 'only GET\n')
  switch (req.url?.split('?')[0]) {
    case '/metrics':
      return { status: 200, contentType: parts.metrics.contentType, body: await parts.metrics.expose() }
    case '/healthz':
      return text(200, 'alive\n')
    case '/readyz': {
      const reason = parts.readiness()
      if (reason !== undefined) return text(503, `${reason}\n`)
      const lacking = parts.degradation()
      return text(200, lacking === undefined ? 'ready\n' : `degraded: ${lacking}\n`)
    }
    default:
      return text(404, 'there are /metrics, /healthz and /readyz\n')
  }
}

function text(status: number, body: string): AdminResponse {
  return { status, contentType: 'text/plain; charset=utf-8', body }
}

function send(req: IncomingMessage, res: ServerResponse, made: AdminResponse): void {
  const headers = [
    'Content-Type',
    made.contentType,
    'Content-Length',
    String(Buffer.byteLength(made.body)),
    ...MANDATORY_HEADERS,
    'X-Request-ID',
    newRequestId(),
  ]
  if (made.status === 405) headers.push('Allow', 'GET, HEAD')
  res.writeHead(made.status, headers)
  res.end(req.method === 'HEAD' ? undefined : made.body)
}
