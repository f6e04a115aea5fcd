/** What a WebSocket upgrade is recognised by, of a request whose Connection field names Upgrade. */
interface Asking {
  readonly method: string
  readonly version: string
  /** Flat list: name, value. */
  readonly rawHeaders: readonly string[]
  /** It has a body. */
  readonly body: unknown
}

/**
 * RFC 6455 section 4.2.1: a GET without a body that asks for WebSocket version 13, and for nothing else. HTTP/1.0 cannot
 * ask for another protocol (RFC 9110 section 7.8).
 */
export function isWebSocketUpgrade({ method, version, rawHeaders, body }: Asking): boolean {
  if (method !== 'GET' || version !== '1.1' || body !== null) return false
  return (
    fieldOf(rawHeaders, 'upgrade')?.toLowerCase() === 'websocket' &&
    fieldOf(rawHeaders, 'sec-websocket-version') === '13' &&
    fieldOf(rawHeaders, 'sec-websocket-key') !== undefined &&
    fieldOf(rawHeaders, 'content-length') === undefined
  )
}

/** @returns undefined when there is none; all of them, joined, when there are several. */
function fieldOf(rawHeaders: readonly string[], name: string): string | undefined {
  let joined: string | undefined
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    if (rawHeaders[i]?.toLowerCase() !== name) continue
    joined = joined === undefined ? rawHeaders[i + 1] : `${joined}, ${rawHeaders[i + 1]}`
  }
  return joined
}

/** The head of a 101 answer (RFC 9110 section 15.2.2). @param lines each with its CR LF */
export function upgradeHead(lines: string): string {
  return `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${lines}\r\n`
}
