import { constants, performServerHandshake, type ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import type { WireRequest } from './scripted.test-support.ts'

/**
 * Serves streams of HTTP/2 to scripts that are written for HTTP/1.1: each request is shown as its text, and what is written to its
 * socket goes out as a response of its stream. Ending or destroying the socket resets the stream.
 *
 * @param open holds the streams that are open
 */
export function serveStreams(
  socket: Socket,
  open: Set<object>,
  onRequest: (request: Omit<WireRequest, 'connection'>) => void,
): void {
  const session = performServerHandshake(socket)
  session.on('error', () => {})
  session.on('stream', (stream: ServerHttp2Stream, _headers, _flags, flat) => {
    stream.on('error', () => {})
    open.add(stream)
    stream.on('close', () => open.delete(stream))
    let body = ''
    stream.on('data', (piece: Buffer) => {
      body += piece.toString('latin1')
    })
    stream.on('end', () => {
      if (!stream.aborted)
        onRequest({ head: headOf(flat as unknown as string[]), body, socket: scriptOf(stream, socket) })
    })
  })
}

function headOf(flat: readonly string[]): string {
  const pseudo: Record<string, string> = {}
  let lines = ''
  for (let i = 0; i < flat.length; i += 2) {
    const name = flat[i] as string
    if (name.startsWith(':')) pseudo[name] = flat[i + 1] as string
    else lines += `\r\n${name}: ${flat[i + 1]}`
  }
  return `${pseudo[':method']} ${pseudo[':path']} HTTP/1.1\r\nhost: ${pseudo[':authority']}${lines}`
}

function scriptOf(stream: ServerHttp2Stream, socket: Socket): Socket {
  const script = {
    get destroyed() {
      return stream.destroyed
    },
    on: (event: string, listener: () => void) => stream.on(event, listener),
    write: (text: string) => stream.destroyed || write(stream, text),
    end(text: string): void {
      if (stream.destroyed) return
      write(stream, text)
      setImmediate(() => stream.close(constants.NGHTTP2_INTERNAL_ERROR))
    },
    destroy: () => stream.close(constants.NGHTTP2_INTERNAL_ERROR),
    remotePort: socket.remotePort,
  }
  return script as object as Socket
}

/** @returns whether the stream takes more */
function write(stream: ServerHttp2Stream, text: string): boolean {
  // One chunk.
  if (stream.headersSent) return stream.write(text.slice(text.indexOf('\r\n') + 2, -2))
  if (!text.startsWith('HTTP/')) {
    stream.close(constants.NGHTTP2_PROTOCOL_ERROR)
    return true
  }
  const end = text.indexOf('\r\n\r\n')
  if (end < 0) return true
  const [start = '', ...lines] = text.slice(0, end).split('\r\n')
  const rest = text.slice(end + 4)
  const status = Number(start.split(' ')[1])
  const fields = lines
    .map((line) => line.split(': ', 2))
    .filter(([name]) => name !== 'Transfer-Encoding')
    .map(([name = '', value = '']) => [name.toLowerCase(), value] as const)
  const head = { ...Object.fromEntries(fields), ':status': status }
  if (status < 200) {
    stream.additionalHeaders(head)
    return write(stream, rest)
  }
  stream.respond(head)
  if (!lines.includes(`Content-Length: ${rest.length}`)) return rest === '' || stream.write(rest)
  stream.end(rest)
  return true
}
