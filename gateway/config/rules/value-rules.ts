import { BlockList, isIP, isIPv6 } from 'node:net'
import { foldedName, isProtectedName } from '../../edge/rules/field-rules.ts'
import { isToken } from '../../edge/syntax/characters.ts'
import { describeValue } from '../json/schema-check.ts'

const LOOPBACK: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]'])

const HOST_NAME = /^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$/
const HTTP_UPSTREAM = /^(?:https?|h2c?):\/\/(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]+)?\/?$/
const NETWORK = /^([^/%]+)(?:\/(0|[1-9][0-9]{0,2}))?$/
/** `sun_path` of Linux holds 108 bytes, the last of them NUL; macOS has four less. */
const MAX_SOCKET_PATH_BYTES = 103

export function hostFault(host: string): string | undefined {
  if (isIP(host) !== 0 || (HOST_NAME.test(host) && !/^[0-9.]+$/.test(host))) return undefined
  return `must be an IP address without brackets, or a host name, without a port, ${foundAddress(host)}`
}

/** Allows a closing slash, which `tidyUpstream` removes. */
export function upstreamFault(upstream: string): string | undefined {
  const found = foundAddress(upstream)
  if (upstream.startsWith('unix:')) {
    const path = upstream.slice('unix:'.length)
    if (!path.startsWith('/') || path.startsWith('//') || path.endsWith('/') || path.includes('\0')) {
      return `must name its socket by an absolute path, such as "unix:/run/service.sock", ${found}`
    }
    if (Buffer.byteLength(path) <= MAX_SOCKET_PATH_BYTES) return undefined
    return `must name a socket by a path of at most ${MAX_SOCKET_PATH_BYTES} bytes, ${found}`
  }
  const url = httpUrlOf(upstream)
  const port = URL.canParse(url) ? new URL(url).port : undefined
  if (HTTP_UPSTREAM.test(upstream) && port !== undefined && port !== '0') return undefined
  return `must be http://host:port, https://host:port, unix:/path.sock, or for HTTP/2 h2c://host:port or h2://host:port, without path, query or credentials, ${found}`
}

/** Describes an address without passwords and the query, which may hold a key, because faults are logged. */
function foundAddress(address: string): string {
  return hasUser(address) ? 'but has an @' : `but is ${describeValue(address.replace(/\?.*$/s, '?…'))}`
}

function hasUser(address: string): boolean {
  return address.includes('@') && !address.startsWith('unix:')
}

/** One group speaks one version of HTTP. @param first the first upstream of the group */
export function versionFault(upstream: string, first: string | undefined): string | undefined {
  if (first === undefined || isHttp2Upstream(upstream) === isHttp2Upstream(first)) return undefined
  const other = hasUser(first) ? 'the first' : describeValue(first)
  return `must speak the same version of HTTP as ${other}, ${foundAddress(upstream)}`
}

export function isHttp2Upstream(upstream: string): boolean {
  return /^h2c?:/.test(upstream)
}

/** The upstream with `https:` or `http:`, because `URL` reads names and ports only of schemes that it knows. */
export function httpUrlOf(upstream: string): string {
  return upstream.replace(/^h2:/, 'https:').replace(/^h2c:/, 'http:')
}

export function tidyUpstream(upstream: string): string {
  return upstream.startsWith('unix:') || !upstream.endsWith('/') ? upstream : upstream.slice(0, -1)
}

export function urlFault(url: string): string | undefined {
  const found = foundAddress(url)
  // Stricter than URL parsers, because an issuer is compared with tokens character by character.
  if (!/^https?:\/\/[^\s\\]+$/.test(url) || !URL.canParse(url))
    return `must be an http or https URL, ${found}`
  const { username, password } = new URL(url)
  if (username !== '' || password !== '') return 'must be a URL without credentials'
  return url.includes('#') ? `must be a URL without a fragment, ${found}` : undefined
}

/** True where nobody on the way can read or change what is sent: https, or http on this machine. */
export function isPrivateUrl(url: string): boolean {
  const { protocol, hostname } = new URL(url)
  return protocol === 'https:' || LOOPBACK.has(hostname)
}

export function privateUrlFault(url: string): string | undefined {
  return (
    urlFault(url) ?? (isPrivateUrl(url) ? undefined : `must be https, or on this machine, but is "${url}"`)
  )
}

/** RFC 8414 section 2. */
export function issuerFault(issuer: string): string | undefined {
  const fault = urlFault(issuer)
  if (fault !== undefined || !issuer.includes('?')) return fault
  return `must be a URL without a query, ${foundAddress(issuer)}`
}

/** The rule for each key of gateway.json. If the value is a list, the rule applies to each text in it. */
export const TEXT_RULES = {
  host: hostFault,
  adminHost: hostFault,
  adminNames: hostFault,
  issuer: issuerFault,
  jwksUri: urlFault,
  trustedProxies: proxyFault,
  clientCertProxies: proxyFault,
  allowedFieldNames: fieldNameFault,
}

/** Adds an address or a network to the list, or says what is wrong with it. */
export function addNetwork(list: BlockList, network: string): string | undefined {
  const reason = `must be an IP address or a network such as "10.0.0.0/8" or "fd00::/8", but is ${describeValue(network)}`
  const [, address = '', prefix] = NETWORK.exec(network) ?? []
  if (isIP(address) === 0) return reason
  const family = isIPv6(address) ? 'ipv6' : 'ipv4'
  if (prefix === undefined) list.addAddress(address, family)
  else if (Number(prefix) <= (family === 'ipv6' ? 128 : 32)) list.addSubnet(address, Number(prefix), family)
  else return reason
  return undefined
}

function proxyFault(network: string): string | undefined {
  return addNetwork(new BlockList(), network)
}

function fieldNameFault(name: string): string | undefined {
  if (!isToken(name)) return `must be the name of a header, but is ${describeValue(name)}`
  const lower = name.toLowerCase()
  const folded = foldedName(lower)
  if (isProtectedName(folded))
    return `must not be ${describeValue(name)}: services may take it for "${folded}"`
  return lower === folded ? `need not be named: ${describeValue(name)} passes anyway` : undefined
}
