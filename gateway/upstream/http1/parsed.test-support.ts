import { flatOf } from '../contract/scripted.test-support.ts'
import { type PendingRequest, ResponseParser } from './response-parser.ts'

/** What a parser made of some bytes, pieces of the body joined. */
export interface Parsed {
  readonly interim: { readonly status: number; readonly headers: readonly string[] }[]
  status: number | undefined
  headers: readonly string[]
  body: string
  /** How it stood after the last byte; `cut` when the connection's end leaves the response unfinished. */
  outcome: string
  /** Bytes beyond the end of the response. */
  rest: number
  keeps: boolean
}

const GET: PendingRequest = { method: 'GET', upgrade: undefined }

/** Feeds `text` in pieces that end before each of `ends`, then closes the connection. */
export function parse(
  text: string,
  ends: readonly number[] = [],
  request: Partial<PendingRequest> = {},
): Parsed {
  const bytes = Buffer.from(text, 'latin1')
  const parsed: Parsed = {
    ...{ interim: [], status: undefined, headers: [], body: '', outcome: '', rest: 0, keeps: false },
  }
  const parser = new ResponseParser({
    interim: (status, fields) => parsed.interim.push({ status, headers: flatOf(fields) }),
    head(status, fields) {
      parsed.status = status
      parsed.headers = flatOf(fields)
    },
    data(piece, from, to) {
      parsed.body += piece.toString('latin1', from, to)
      return true
    },
  })
  parser.expect({ ...GET, ...request })
  let at = 0
  for (const end of [...ends, bytes.length]) {
    // Each piece has its own buffer, which is overwritten after the call.
    const piece = Buffer.from(bytes.subarray(at, end))
    at += parser.read(piece, 0, piece.length)
    piece.fill('!')
    if (at < end) break
  }
  parsed.rest = bytes.length - at
  parsed.keeps = parser.keepsConnection
  const { phase } = parser
  if (phase === 'until close') parsed.outcome = 'whole'
  else if (phase === 'faulty') parsed.outcome = parser.fault
  else parsed.outcome = phase === 'whole' || phase === 'switched' ? phase : 'cut'
  return parsed
}
