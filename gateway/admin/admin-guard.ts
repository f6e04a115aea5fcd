import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import { type AdminAccess, type AdminResponse, text } from './admin-route.ts'

interface GuardOptions {
  /** The address it is bound to, and further names of it. */
  readonly names: readonly string[]
  /** Undefined: whoever reaches the listener is an operator. */
  readonly token: string | undefined
}

const HOST = /^(?:\[([^\]]*)\]|([^:]*))(?::\d{1,5})?$/
const BEARER = /^Bearer +([\x21-\x7e]+) *$/i
const CHALLENGE = 'Bearer realm="countersign admin"'

/**
 * Refuses web pages that operators visit: their requests come under another name (DNS rebinding), or say where they come from
 * (Origin, Sec-Fetch-Site). There are no cookies, so no request of another page carries a credential.
 */
export class AdminGuard {
  readonly #names: ReadonlySet<string>
  #digest: Buffer | undefined

  constructor({ names, token }: GuardOptions) {
    this.#names = new Set(names.map((name) => name.toLowerCase()))
    this.#digest = token === undefined ? undefined : digestOf(token)
  }

  replaceToken(token: string): void {
    this.#digest = digestOf(token)
  }

  refuse({ method, headers }: Pick<IncomingMessage, 'method' | 'headers'>, access: AdminAccess) {
    if (access === 'anyone') return undefined
    if (isForeign(headers) && !(access === 'page' && method === 'GET' && isNavigation(headers))) {
      return text(403, 'requests of other web pages are refused\n')
    }
    const token = access === 'operator' ? BEARER.exec(headers.authorization ?? '')?.[1] : undefined
    // No page of another name can know the token.
    if (token !== undefined && this.#isToken(token)) return undefined
    return this.#refuseName(headers.host) ?? (access === 'operator' ? this.#refuseToken(token) : undefined)
  }

  #isToken(token: string): boolean {
    return this.#digest !== undefined && timingSafeEqual(this.#digest, digestOf(token))
  }

  #refuseName(host = ''): AdminResponse | undefined {
    const [, bracketed, name = ''] = HOST.exec(host) ?? []
    if (bracketed !== undefined ? isIP(bracketed) === 6 : isIP(name) === 4) return undefined
    const lower = name.toLowerCase()
    if (lower === 'localhost' || this.#names.has(lower)) return undefined
    return text(421, 'unknown name in Host: add it to GATEWAY_ADMIN_NAMES, or use an IP address\n')
  }

  #refuseToken(token: string | undefined): AdminResponse | undefined {
    if (this.#digest === undefined) return undefined
    // RFC 6750 section 3: no error code when no credential was given.
    const challenge = token === undefined ? CHALLENGE : `${CHALLENGE}, error="invalid_token"`
    return text(401, 'needs the token of the admin listener\n', ['WWW-Authenticate', challenge])
  }
}

function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}

/** True for a request of another web page. Browsers cannot leave these headers out. */
function isForeign(headers: IncomingMessage['headers']): boolean {
  const site = headers['sec-fetch-site']
  if (site !== undefined && site !== 'same-origin' && site !== 'none') return true
  const { origin, host = '' } = headers
  // A proxy in front may speak TLS, so the scheme is not compared.
  return origin !== undefined && origin.replace(/^https?:\/\//, '').toLowerCase() !== host.toLowerCase()
}

/** A person followed a link. The other page learns nothing of the response. */
function isNavigation(headers: IncomingMessage['headers']): boolean {
  return headers['sec-fetch-mode'] === 'navigate' && headers['sec-fetch-dest'] === 'document'
}
