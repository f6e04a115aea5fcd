import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createServer as createSecureServer } from 'node:tls'
import {
  DECISION_ANSWER,
  DECISION_PATH,
  HUGE_BYTES,
  HUGE_PATH,
  INTROSPECTION_ANSWER,
  INTROSPECTION_PATH,
  LARGE_PATH,
  LARGE_RESPONSE_BYTES,
  RESPONSE_BYTES,
} from './upstream-responses.ts'

// The service behind every contender. To respond as fast as it can, it reads only a request's path and where it ends.
// `process.argv[2]` is a file with the issuer's keys; the next two, if given, are a TLS listener's certificate and key.

const HEAD_END = '\r\n\r\n'
const response = responseOf(
  JSON.stringify({ account: 'DE89370400440532013000', balanceMinor: 1_234_567 }),
  RESPONSE_BYTES,
)
const large = responseOf('{"rows":[', LARGE_RESPONSE_BYTES)
const huge = responseOf('{"rows":[', HUGE_BYTES)
const answer = responseOf(INTROSPECTION_ANSWER, INTROSPECTION_ANSWER.length)
const decision = responseOf(DECISION_ANSWER, DECISION_ANSWER.length)
const keysText = readFileSync(process.argv[2] as string, 'latin1')
const keys = responseOf(keysText, keysText.length)

const server = createServer({ noDelay: true }, serve).listen(0, '127.0.0.1')
await once(server, 'listening')
process.send?.({ port: portOf(server), tlsPort: await listenWithTls() })
process.on('disconnect', () => process.exit(0))

async function listenWithTls(): Promise<number | undefined> {
  const [cert, key] = process.argv.slice(3).map((file) => readFileSync(file))
  if (cert === undefined || key === undefined) return undefined
  const secure = createSecureServer({ cert, key, noDelay: true }, serve).listen(0, '127.0.0.1')
  await once(secure, 'listening')
  return portOf(secure)
}

function portOf(listener: Server): number {
  return (listener.address() as AddressInfo).port
}

function responseOf(begin: string, bytes: number): Buffer {
  const head = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${bytes}\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n`
  return Buffer.from(`${head}${'\r\n'}${begin.padEnd(bytes, ' ')}`, 'latin1')
}

function serve(socket: Socket): void {
  let text = ''
  /** Missing bytes of a body of known length. */
  let bytesLeft = 0
  let awaited = response
  socket.on('error', () => socket.destroy())
  socket.on('data', (bytes: Buffer) => {
    const counted = Math.min(bytesLeft, bytes.length)
    bytesLeft -= counted
    if (bytesLeft > 0) return
    if (counted > 0) socket.write(awaited)
    if (counted === bytes.length) return
    text += bytes.toString('latin1', counted)
    for (let end = endOf(text); end > 0; end = endOf(text)) {
      bytesLeft = end - text.length
      if (bytesLeft > 0) {
        awaited = responseTo(text)
        text = ''
        return
      }
      bytesLeft = 0
      const request = text.slice(0, end)
      text = text.slice(end)
      socket.write(responseTo(request))
    }
  })
}

/** Length of the first request, even if some of it is yet to come; 0 while unknown. */
function endOf(text: string): number {
  const headEnd = text.indexOf(HEAD_END)
  if (headEnd < 0) return 0
  const bodyFrom = headEnd + HEAD_END.length
  if (text.startsWith('GET ')) return bodyFrom
  const head = text.slice(0, bodyFrom)
  const length = /\r\ncontent-length: (\d+)\r\n/i.exec(head)?.[1]
  if (length !== undefined) return bodyFrom + Number(length)
  const end = text.indexOf('\r\n0\r\n\r\n', headEnd)
  return end < 0 ? 0 : end + 7
}

function responseTo(request: string): Buffer {
  if (request.startsWith(LARGE_PATH, 4)) return large
  if (request.startsWith(HUGE_PATH, 4)) return huge
  if (request.startsWith(INTROSPECTION_PATH, 5)) return answer
  if (request.startsWith(DECISION_PATH, 5)) return decision
  return request.startsWith('/.well-known/', 4) ? keys : response
}
