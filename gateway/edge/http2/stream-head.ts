import type { RequestFault } from '../http1/handler.ts'
import { isGrpc } from '../rules/grpc.ts'
import { isToken } from '../syntax/characters.ts'
import { Field } from '../syntax/field.ts'
import { MAX_METHOD_CHARS } from '../syntax/status-codes.ts'
import type { HeadField, HeadSink } from './hpack/head-decoder.ts'

/** Fields about one connection of HTTP/1.1 (RFC 9113 section 8.2.2). */
const CONNECTION_SPECIFIC: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade',
])
/** A colon and a space, CR and LF. */
const LINE_BYTES = 4

const PSEUDO: ReadonlySet<string> = new Set([':method', ':scheme', ':authority', ':path', ':protocol'])

/** A request's head (RFC 9113 section 8.3) in the form of HTTP/1.1. The first fault counts, for its stream alone. */
export class StreamHead implements HeadSink {
  method = '-'
  target = ''
  readonly version = '2'
  fields: Field[] = []
  fault: RequestFault | undefined = undefined
  readonly #pseudo = new Map<string, string>()
  readonly #isSecure: boolean
  #regular = false
  #isPadded = false
  #bytes = 0
  #cookie: string | undefined = undefined
  readonly #maxBytes: number

  constructor(isSecure: boolean, maxBytes: number) {
    this.#isSecure = isSecure
    this.#maxBytes = maxBytes
  }

  take({ field, isPseudo, isPadded, fault }: HeadField): void {
    const { lower, value } = field
    this.#isPadded ||= isPadded
    this.#bytes += lower.length + value.length + LINE_BYTES
    if (this.#bytes > this.#maxBytes)
      this.fault ??= { code: 'headers_too_large', cause: `a head beyond ${this.#maxBytes} bytes` }
    if (fault !== undefined) this.#malformed(fault)
    else if (isPseudo && isPadded) this.#malformed('white space around a pseudo-field')
    // Beyond the bound, only Content-Type is still read, because it decides the form of the refusal.
    if (this.fault?.code === 'headers_too_large' && lower !== 'content-type') return
    if (isPseudo) this.#takePseudo(lower, value)
    else if (fault === undefined) this.#takeRegular(field)
  }

  #takePseudo(name: string, value: string): void {
    if (this.#regular) this.#malformed('a pseudo-field after another field')
    else if (this.#pseudo.has(name)) this.#malformed(`more than one ${name}`)
    else if (PSEUDO.has(name)) this.#pseudo.set(name, value)
    else this.#malformed('an unknown pseudo-field')
  }

  #takeRegular(field: Field): void {
    const { lower, value } = field
    this.#regular = true
    if (CONNECTION_SPECIFIC.has(lower) || (lower === 'te' && value.toLowerCase() !== 'trailers'))
      this.#malformed(`${lower} in HTTP/2`)
    // RFC 9113 section 8.2.3.
    else if (lower === 'cookie')
      this.#cookie = this.#cookie === undefined ? value : `${this.#cookie}; ${value}`
    else this.fields.push(field)
  }

  complete(): void {
    if (this.#cookie !== undefined) this.fields.push(new Field('cookie', this.#cookie))
    this.#readMethod()
    if (this.method === 'CONNECT') this.target = this.#pseudo.get(':authority') ?? ''
    else this.#readTarget()
    this.#readHost(this.#pseudo.get(':authority'))
    // RFC 9113 section 8.2.1 forbids this white space. gRPC clients send it in metadata, and gRPC lets us strip it.
    if (this.#isPadded && !isGrpc(this)) this.#malformed('white space around a value')
  }

  #readMethod(): void {
    const method = this.#pseudo.get(':method')
    if (method === undefined || !isToken(method)) this.#malformed('no method')
    else this.method = method.slice(0, MAX_METHOD_CHARS)
  }

  #readTarget(): void {
    const path = this.#pseudo.get(':path')
    const scheme = this.#pseudo.get(':scheme')?.toLowerCase()
    // White space would let two readers see two different targets.
    if (path !== undefined && !/[\t ]/.test(path)) this.target = path
    if (scheme !== (this.#isSecure ? 'https' : 'http')) this.#malformed('not the scheme of the listener')
    if (this.#pseudo.get(':protocol') !== undefined) this.#malformed('a protocol without CONNECT')
    if (this.target.startsWith('/') || (this.target === '*' && this.method === 'OPTIONS')) return
    this.#malformed('no path')
  }

  /** RFC 9113 section 8.3.1: the authority replaces Host, which may repeat it. */
  #readHost(authority: string | undefined): void {
    if (authority === undefined) return
    const hosts = this.fields.filter(({ lower }) => lower === 'host')
    if (hosts.length === 0) this.fields.unshift(new Field('host', authority))
    else if (hosts.some(({ value }) => value !== authority))
      this.fault ??= { code: 'invalid_host', cause: 'Host differs from :authority' }
  }

  #malformed(cause: string): void {
    this.fault ??= { code: 'malformed_request', cause }
  }
}

export class Trailers implements HeadSink {
  readonly fields: Field[] = []
  isMalformed = false
  readonly #maxBytes: number
  #bytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  take({ field, isPseudo, isPadded, fault }: HeadField): void {
    this.#bytes += field.lower.length + field.value.length + LINE_BYTES
    if (isPseudo || isPadded || fault !== undefined || this.#bytes > this.#maxBytes) this.isMalformed = true
    if (!this.isMalformed) this.fields.push(field)
  }
}
