import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { v7 as uuid } from 'uuid'
import { PROBLEM_MEDIA_TYPE, Problem, type ProblemCode, problemBody } from '../problems.ts'

const CODES: Readonly<Record<string, ProblemCode>> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
}

/** Responds with a problem to what Node's parser cannot read, and closes the connection. */
export function respondToUnparsed(fault: Error & { readonly code?: string }, socket: Socket): void {
  if (!socket.writable) {
    socket.destroy()
    return
  }
  const problem = new Problem(CODES[fault.code ?? ''] ?? 'malformed_message')
  const body = problemBody(problem, uuid())
  socket.write(
    `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}\r\nConnection: close\r\n` +
      `Content-Type: ${PROBLEM_MEDIA_TYPE}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  )
  // Not end(), after which the socket would wait for the other side to end too.
  socket.destroySoon()
}
