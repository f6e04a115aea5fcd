import type { IncomingMessage } from 'node:http'

/**
 * RFC 6455 section 4.2.1: a GET without a body that asks for WebSocket version 13. HTTP/1.0 cannot ask for another
 * protocol (RFC 9110 section 7.8). That Connection names Upgrade is for the parser to see.
 */
export function isWebSocketUpgrade(req: IncomingMessage): boolean {
  const { headers } = req
  return (
    req.method === 'GET' &&
    req.httpVersion === '1.1' &&
    headers.upgrade?.toLowerCase() === 'websocket' &&
    headers['sec-websocket-version'] === '13' &&
    headers['sec-websocket-key'] !== undefined &&
    headers['content-length'] === undefined &&
    headers['transfer-encoding'] === undefined
  )
}

/** The head of a 101 answer (RFC 9110 section 15.2.2), which Node's response object cannot write once the socket is a tunnel. */
export function upgradeHead(headers: readonly string[]): string {
  let head = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n'
  for (let i = 0; i + 1 < headers.length; i += 2) head += `${headers[i]}: ${headers[i + 1]}\r\n`
  return `${head}\r\n`
}
