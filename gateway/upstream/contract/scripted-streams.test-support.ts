import { constants, performServerHandshake, type ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import type { WireRequest } from './scripted.test-support.ts'

interface StreamObserver {
  readonly open: Set<object>
  /** Bytes of a request as HTTP/1.1 would have them, bodies without chunk framing. */
  onBytes(text: string): void
  onRequest(request: Omit<WireRequest, 'connection'>): void
}

/**
 * Serves streams of HTTP/2 to scripts that are written for HTTP/1.1: each request is shown as its text, and what is
 * written to its socket goes out as a response of its stream. Ending or destroying the socket resets the stream.
 */
export function serveStreams(socket: Socket, { open, onBytes, onRequest }: StreamObserver): void {
  const session = performServerHandshake(socket)
  session.on('error', () => {})
  session.on('stream', (stream: ServerHttp2Stream, _headers, _flags, flat) => {
    const head = headOf(flat as unknown as string[])
    stream.on('error', () => {})
    open.add(stream)
    stream.on('close', () => open.delete(stream))
    onBytes(`${head}\r\n\r\n`)
    let body = ''
    stream.on('data', (piece: Buffer) => {
      const text = piece.toString('latin1')
      body += text
      onBytes(text)
    })
    stream.on('end', () => {
      if (!stream.aborted) onRequest({ head, body, socket: scriptOf(stream, socket) })
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
  const response = new ScriptedResponse(stream)
  const script = {
    get destroyed() {
      return stream.destroyed
    },
    on: (event: string, listener: () => void) => stream.on(event, listener),
    off: (event: string, listener: () => void) => stream.off(event, listener),
    write: (bytes: string | Buffer) => stream.destroyed || response.write(bytes),
    end(text: string): void {
      if (stream.destroyed) return
      response.write(text)
      setImmediate(() => stream.close(constants.NGHTTP2_INTERNAL_ERROR))
    },
    destroy: () => stream.close(constants.NGHTTP2_INTERNAL_ERROR),
    remotePort: socket.remotePort,
  }
  return script as object as Socket
}

/** A response of HTTP/1.1, sent on a stream. What comes after its end has no equivalent in HTTP/2 and is dropped. */
class ScriptedResponse {
  readonly #stream: ServerHttp2Stream
  #isChunked = false
  /** Bytes of the announced length that are still to come. */
  #leftBytes = Number.POSITIVE_INFINITY

  constructor(stream: ServerHttp2Stream) {
    this.#stream = stream
  }

  /** @returns true when the stream takes more */
  write(bytes: string | Buffer): boolean {
    if (this.#stream.headersSent) return this.#writeBody(bytes)
    const text = bytes.toString()
    const end = text.indexOf('\r\n\r\n')
    if (!text.startsWith('HTTP/'.slice(0, text.length))) this.#stream.close(constants.NGHTTP2_PROTOCOL_ERROR)
    else if (end >= 0) {
      this.#writeHead(text.slice(0, end))
      if (end + 4 < text.length) return this.write(text.slice(end + 4))
    }
    return true
  }

  #writeHead(head: string): void {
    const [start = '', ...lines] = head.split('\r\n')
    const status = Number(start.split(' ')[1])
    const fields = Object.fromEntries(
      lines.map((line) => line.split(': ', 2)).map(([name = '', value = '']) => [name.toLowerCase(), value]),
    )
    const { 'transfer-encoding': coding, ...headers } = fields
    if (status < 200) this.#stream.additionalHeaders({ ...headers, ':status': status })
    else {
      this.#isChunked = coding === 'chunked'
      if (headers['content-length'] !== undefined) this.#leftBytes = Number(headers['content-length'])
      // Otherwise Node sends END_STREAM after a body that is cut off, before it resets the stream.
      this.#stream.respond({ ...headers, ':status': status }, { waitForTrailers: true })
      this.#stream.once('wantTrailers', () => this.#stream.closed || this.#stream.sendTrailers({}))
      if (this.#leftBytes === 0) this.#stream.end()
    }
  }

  #writeBody(bytes: string | Buffer): boolean {
    if (this.#stream.writableEnded) return true
    // The bytes are one chunk.
    const piece = this.#isChunked
      ? bytes.slice(bytes.indexOf('\r\n') + 2, -2)
      : bytes.slice(0, this.#leftBytes)
    this.#leftBytes -= piece.length
    if (this.#leftBytes > 0) return this.#stream.write(piece)
    this.#stream.end(piece)
    return true
  }
}
