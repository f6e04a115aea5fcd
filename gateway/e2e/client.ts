import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { connect } from 'node:net'

export interface ReceivedResponse {
  readonly status: number
  /** Names are in lower case; repeated headers are joined as Node joins them. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** As on the wire: name, value, name, value. */
  readonly rawHeaders: readonly string[]
  readonly body: string
  /** Throws when the body is no JSON. */
  json<T = Record<string, unknown>>(): T
}

export interface Call {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string | string[]>>
  /** Objects are sent as JSON. */
  readonly body?: string | Buffer | object
  readonly agent?: Agent
}

export async function call(url: string, options: Call = {}): Promise<ReceivedResponse> {
  const { body } = options
  const isJson = typeof body === 'object' && !Buffer.isBuffer(body)
  const bytes = isJson ? JSON.stringify(body) : body
  const req = request(url, {
    method: options.method ?? 'GET',
    agent: options.agent ?? new Agent(),
    headers: { ...(isJson ? { 'content-type': 'application/json' } : {}), ...options.headers },
  })
  req.end(bytes)
  const [res] = await once(req, 'response')
  // A response that breaks off rejects below; the socket's own error would end the test process.
  req.on('error', () => {})
  const chunks: Buffer[] = []
  for await (const chunk of res) chunks.push(chunk as Buffer)
  const text = Buffer.concat(chunks).toString('utf8')
  return {
    status: res.statusCode,
    headers: res.headers,
    rawHeaders: res.rawHeaders,
    body: text,
    json: () => JSON.parse(text),
  }
}

/** Sends these bytes. Returns everything until the other side closes. */
export async function sendBytes(port: number, bytes: string | Buffer): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  socket.setEncoding('latin1')
  let response = ''
  socket.on('data', (text: string) => {
    response += text
  })
  socket.on('error', () => {})
  socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes)
  socket.on('end', () => socket.end())
  // events.once would reject on a reset, even after the response.
  await new Promise((resolve) => socket.on('close', resolve))
  return response
}

/** The first response's status; 0 without one. */
export function statusOf(response: string): number {
  return Number(/^HTTP\/1\.1 (\d{3}) /.exec(response)?.[1] ?? 0)
}
