import { httpUrlOf } from '../config/rules/value-rules.ts'

export interface Address {
  /** As configured. */
  readonly url: string
  readonly secure: boolean
  /** True for `h2c` (prior knowledge) and `h2` (ALPN). */
  readonly isHttp2: boolean
  /** IPv6 without brackets; empty for a Unix socket. */
  readonly host: string
  readonly port: number
  readonly socketPath: string | undefined
}

/** Reads `http://host[:port]`, `https://…`, `h2c://…`, `h2://…` or `unix:/path.sock`. @throws TypeError */
export function parseAddress(url: string): Address {
  if (url.startsWith('unix:')) {
    const socketPath = url.slice('unix:'.length)
    if (!socketPath.startsWith('/'))
      throw faulty(url, 'the path of a Unix socket must be absolute: unix:/path.sock')
    return { url, secure: false, isHttp2: false, host: '', port: 0, socketPath }
  }
  const isHttp2 = url.startsWith('h2:') || url.startsWith('h2c:')
  const parsed = URL.parse(httpUrlOf(url))
  if (parsed === null) throw faulty(url, 'is not a URL')
  const { protocol, hostname, port, pathname, search, hash, username, password } = parsed
  if (protocol !== 'http:' && protocol !== 'https:')
    throw faulty(url, 'must begin with http://, https://, h2c://, h2:// or unix:')
  if (pathname !== '/' || search !== '' || hash !== '') throw faulty(url, 'must end after host and port')
  if (username !== '' || password !== '') throw faulty(url, 'must not hold credentials')
  const secure = protocol === 'https:'
  const host = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname
  const usualPort = secure ? 443 : 80
  return { url, secure, isHttp2, host, port: Number(port || usualPort), socketPath: undefined }
}

export function hostOf(url: string): string {
  return url.startsWith('unix:') ? 'localhost' : new URL(httpUrlOf(url)).host
}

function faulty(url: string, reason: string): TypeError {
  return new TypeError(`upstream ${url}: ${reason}`)
}
