import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { ANSWER_BYTES, LARGE_ANSWER_BYTES, LARGE_PATH } from './upstream-answers.ts'

// The service behind every contender: answers as fast as a socket can be written, and understands no more of HTTP than
// where a request ends. `process.argv[2]` is a file with the issuer's keys.

const HEAD_END = '\r\n\r\n'
const answer = answerOf(
  JSON.stringify({ account: 'DE89370400440532013000', balanceMinor: 1_234_567 }),
  ANSWER_BYTES,
)
const large = answerOf('{"rows":[', LARGE_ANSWER_BYTES)
const keysText = readFileSync(process.argv[2] as string, 'latin1')
const keys = answerOf(keysText, keysText.length)

const server = createServer({ noDelay: true }, serve)
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }))
process.on('disconnect', () => process.exit(0))

function answerOf(begin: string, bytes: number): Buffer {
  const head = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${bytes}\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n`
  return Buffer.from(`${head}${'\r\n'}${begin.padEnd(bytes, ' ')}`, 'latin1')
}

function serve(socket: Socket): void {
  let text = ''
  socket.on('error', () => socket.destroy())
  socket.on('data', (bytes: Buffer) => {
    text += bytes.toString('latin1')
    for (let end = endOf(text); end > 0; end = endOf(text)) {
      const request = text.slice(0, end)
      text = text.slice(end)
      socket.write(answerTo(request))
    }
  })
}

/** Length of the first request in the text; 0 while it is not whole. */
function endOf(text: string): number {
  const headEnd = text.indexOf(HEAD_END)
  if (headEnd < 0) return 0
  const bodyFrom = headEnd + HEAD_END.length
  if (text.startsWith('GET ')) return bodyFrom
  const head = text.slice(0, bodyFrom)
  const length = /\r\ncontent-length: (\d+)\r\n/i.exec(head)?.[1]
  if (length !== undefined) {
    const end = bodyFrom + Number(length)
    return end <= text.length ? end : 0
  }
  const end = text.indexOf('\r\n0\r\n\r\n', headEnd)
  return end < 0 ? 0 : end + 7
}

function answerTo(request: string): Buffer {
  if (request.startsWith(LARGE_PATH, 4)) return large
  return request.startsWith('/.well-known/', 4) ? keys : answer
}
