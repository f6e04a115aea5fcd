/* Attributes of spans as OTLP/JSON, each with a comma before it. */

const AUTHORITY = /^(\[[^\]]*\]|[^:]*)(?::(\d+))?$/

/** @returns nothing for undefined */
export function text(key: string, value: string | undefined): string {
  return value === undefined ? '' : `,{"key":"${key}","value":{"stringValue":${JSON.stringify(value)}}}`
}

/** For a value without a character to escape, such as an address. */
export function plain(key: string, value: string): string {
  return `,{"key":"${key}","value":{"stringValue":"${value}"}}`
}

/** @returns nothing for undefined */
export function number(key: string, value: number | undefined): string {
  return value === undefined ? '' : `,{"key":"${key}","value":{"intValue":"${value}"}}`
}

/** Host, which says what server the caller meant. */
export function authorityOf(host: string): string {
  const [, address = '', port] = AUTHORITY.exec(host) ?? []
  if (address === '') return ''
  return (
    text('server.address', withoutBrackets(address)) +
    number('server.port', port === undefined ? undefined : Number(port))
  )
}

interface Origin {
  /** Undefined for a socket file. */
  readonly url: string | undefined
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
    return { url: undefined, attributes }
  }
  const secure = url.protocol === 'https:' || url.protocol === 'h2:'
  const port = url.port === '' ? (secure ? 443 : 80) : Number(url.port)
  const attributes =
    text('server.address', withoutBrackets(url.hostname)) +
    number('server.port', port) +
    text('network.protocol.version', url.protocol.startsWith('h2') ? '2' : '1.1')
  return { url: `${secure ? 'https' : 'http'}://${url.host}`, attributes }
}

function withoutBrackets(address: string): string {
  return address.startsWith('[') ? address.slice(1, -1) : address
}
