import type { Http2Protocol } from '../http1/served-connection.ts'
import { FirstBytes } from './first-bytes.ts'
import { Http2Connection } from './http2-connection.ts'

export const http2: Http2Protocol = {
  serve: (socket, origin, terms) => new Http2Connection(socket, origin, terms),
  recognise: (socket, terms, found) => new FirstBytes(socket, terms, found),
}
