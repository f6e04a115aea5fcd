/**
 * Where a client connection stands.
 *
 * - `idle`: between requests.
 * - `head`, `body`: part of a request has come.
 * - `response`: the request is complete, its response is not. What comes meanwhile is kept for later.
 * - `last response`: a response is due, and the connection closes after it. What comes meanwhile is ignored.
 * - `lingering`: the last response is written and our half is closed. What comes meanwhile is thrown away.
 * - `detached`: the socket belongs to a tunnel, or to the process that replaces this one.
 */
export type ConnectionPhase =
  | 'idle'
  | 'head'
  | 'body'
  | 'response'
  | 'last response'
  | 'lingering'
  | 'detached'

/** Which phase may follow which, and when. The tests of this folder fail on any other transition. */
export const TRANSITIONS: Readonly<
  Record<ConnectionPhase, Readonly<Partial<Record<ConnectionPhase, string>>>>
> = {
  idle: {
    idle: 'the client is still taking its last response when the keep-alive time is over',
    head: 'the first byte of a request has come',
    lingering: 'the client has closed its half',
    detached: 'another process goes on with the connection',
  },
  head: {
    detached: 'another process goes on with the connection',
    body: 'the head is complete and announces a body',
    response: 'the head is complete and announces no body',
    'last response': 'the head is malformed or late, or leaves in doubt where the next request begins',
  },
  body: {
    response: 'the body is complete',
    'last response': 'the body is malformed or late, or the client is gone and was to have no other response',
    lingering: 'the response was written before the body was complete',
  },
  response: {
    idle: 'the response is written',
    'last response': 'the client is gone and was to have no other response',
    lingering: 'the response is written and was the last one, or the client has closed its half',
    detached: 'the protocol was switched, or another process goes on with the connection',
  },
  'last response': {
    'last response': 'the client is gone',
    lingering: 'the response is written',
  },
  lingering: {},
  detached: {},
}
