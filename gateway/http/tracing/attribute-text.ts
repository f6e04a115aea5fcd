import { GRPC_STATUSES } from '../rules/grpc.ts'

/*
 * Attributes of spans as OTLP/JSON, each with a comma before it. What is put together of parts is kept as a tree of them, and
 * every text that it is put into has to walk it again; so what is used often is kept in one piece.
 */

const AUTHORITY = /^(\[[^\]]*\]|[^:]*)(?::(\d+))?$/

/** An attribute of a text. */
export function text(key: string, value: string): string {
  return `${beginText(key, value)}"}}`
}

/** The same without its end, so that more of the value can follow. */
export function beginText(key: string, value: string): string {
  return `,{"key":"${key}","value":{"stringValue":${JSON.stringify(value).slice(0, -1)}`
}

export function number(key: string, value: number): string {
  return `,{"key":"${key}","value":{"intValue":"${value}"}}`
}

/** The same text, in one piece. */
export function inOnePiece(text: string): string {
  return Buffer.from(text).toString()
}

/** An attribute that is made again only when its value changes: of several requests in a row most have the same. */
export class Remembered {
  readonly #key: string
  readonly #maxChars: number
  #value = ''
  #attribute: string

  constructor(key: string, maxChars = Number.POSITIVE_INFINITY) {
    this.#key = key
    this.#maxChars = maxChars
    this.#attribute = text(key, '')
  }

  of(value: string): string {
    if (value !== this.#value) {
      this.#value = value
      this.#attribute = inOnePiece(text(this.#key, value.slice(0, this.#maxChars).toWellFormed()))
    }
    return this.#attribute
  }
}

/** By status. */
const statuses: string[] = []

/** The status of a response; empty when there is none. */
export function statusOf(status: number | undefined): string {
  if (status === undefined) return ''
  statuses[status] ??= inOnePiece(number('http.response.status_code', status))
  return statuses[status]
}

/** By number of the status. */
const rpcs: readonly string[] = GRPC_STATUSES.map((name) =>
  inOnePiece(text('rpc.system.name', 'grpc') + text('rpc.response.status_code', name)),
)

/** Attributes of a call of gRPC: that it is one, and what it came to. */
export function rpcOf(grpcStatus: number): string {
  return rpcs[grpcStatus] ?? ''
}

/** Host, which says what server the caller meant. */
export function authorityOf(host: string): string {
  const [, address = '', port] = AUTHORITY.exec(host) ?? []
  if (address === '') return ''
  return (
    text('server.address', withoutBrackets(address)) +
    (port === undefined ? '' : number('server.port', Number(port)))
  )
}

interface Origin {
  /** The attribute of URLs there, as far as it is the same for all; undefined for a socket file. */
  readonly url: string | undefined
  /** What follows the rest of the URL: its end, and the other attributes. */
  readonly attributes: string
}

/** By upstream, of which there are as many as the configuration names. */
const origins = new Map<string, Origin>()

export function originOf(upstream: string): Origin {
  let origin = origins.get(upstream)
  if (origin === undefined) {
    origin = describeOrigin(upstream)
    origins.set(upstream, origin)
  }
  return origin
}

function describeOrigin(upstream: string): Origin {
  const url = URL.parse(upstream)
  if (url === null || url.host === '') {
    const path = upstream.replace(/^unix:/, '')
    const attributes = text('server.address', path) + text('network.transport', 'unix')
    return { url: undefined, attributes: inOnePiece(`"}}${attributes}`) }
  }
  const secure = url.protocol === 'https:' || url.protocol === 'h2:'
  const port = url.port === '' ? (secure ? 443 : 80) : Number(url.port)
  const attributes =
    text('server.address', withoutBrackets(url.hostname)) +
    number('server.port', port) +
    text('network.protocol.version', url.protocol.startsWith('h2') ? '2' : '1.1')
  return {
    url: inOnePiece(beginText('url.full', `${secure ? 'https' : 'http'}://${url.host}`)),
    attributes: inOnePiece(`"}}${attributes}`),
  }
}

function withoutBrackets(address: string): string {
  return address.startsWith('[') ? address.slice(1, -1) : address
}
