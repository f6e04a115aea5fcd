import { once } from 'node:events'
import type { ClientHttp2Session, ClientHttp2Stream } from 'node:http2'

export interface Asked {
  readonly method?: string
  readonly path?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

export interface Received {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly body: string
}

/** Makes one request. Names of headers are HTTP/1.1's, with `Host`. */
export async function ask(
  over: ClientHttp2Session,
  { method = 'GET', path = '/', headers, body }: Asked,
): Promise<Received> {
  const { Host, ...others } = headers ?? {}
  const authority = Host === undefined ? {} : { ':authority': Host }
  const stream = over.request(
    { ':method': method, ':path': path, ...authority, ...others },
    { endStream: body === undefined },
  )
  if (body !== undefined) stream.end(body)
  return answered(stream)
}

/** @throws when the stream is reset before its response */
export async function answered(stream: ClientHttp2Stream): Promise<Received> {
  stream.on('error', () => {})
  const [headers] = await once(stream, 'response')
  let text = ''
  for await (const piece of stream) text += piece
  return { status: headers[':status'], headers, body: text }
}
