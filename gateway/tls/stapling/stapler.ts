import { hash, type X509Certificate } from 'node:crypto'
import { isIssuer } from '../clients/trust.ts'
import { checkOcspResponse, type IssuedCertificate, Revoked } from './ocsp-response.ts'

export interface Staple {
  readonly der: Uint8Array
  readonly certificate: string
  readonly untilMs: number
}

/** The server's certificate, then those that lead to its root. */
export type Chain = readonly [X509Certificate, ...X509Certificate[]]

interface StaplerOptions {
  readonly chain: Chain
  readonly clock: () => number
  /** Undefined: no response is to be sent from now on. */
  readonly onStaple: (staple: Staple | undefined) => void
  /** Undefined: the last offered response can be sent. */
  readonly onVerdict: (fault: string | undefined) => void
}

/**
 * Sends the offered OCSP response when it is good for the certificate in force. Else keeps the last good one while it
 * is valid, unless the authority has revoked the certificate.
 */
export class Stapler {
  readonly #options: StaplerOptions
  #chain: Chain
  #offered: Buffer | string = 'there is none yet'
  #staple: Staple | undefined
  #verdict: { readonly fault: string | undefined } | undefined

  constructor(options: StaplerOptions) {
    this.#options = options
    this.#chain = options.chain
  }

  get chain(): Chain {
    return this.#chain
  }

  get staple(): Staple | undefined {
    return this.#staple
  }

  judge(offered: Buffer | string): Judged {
    return judgeStaple(offered, this.#chain, this.#options.clock())
  }

  offer(offered: Buffer | string): void {
    this.#offered = offered
    this.#decide()
  }

  replaceCertificate(chain: Chain): void {
    this.#chain = chain
    this.#decide()
  }

  /** Stops sending a response that has expired. */
  check(): unknown {
    return this.#decide()
  }

  #decide(): void {
    const nowMs = this.#options.clock()
    const judged = judgeStaple(this.#offered, this.#chain, nowMs)
    const before = this.#staple
    if ('staple' in judged) this.#staple = judged.staple
    else if (judged.isRevoked || !isSendable(before, thumbprintOf(this.#chain), nowMs))
      this.#staple = undefined
    const isNew =
      before?.untilMs !== this.#staple?.untilMs || before?.certificate !== this.#staple?.certificate
    if (isNew) this.#options.onStaple(this.#staple)
    const fault = 'fault' in judged ? judged.fault : undefined
    if (this.#verdict !== undefined && this.#verdict.fault === fault && !(isNew && fault === undefined))
      return
    this.#verdict = { fault }
    this.#options.onVerdict(fault)
  }
}

type Judged = { readonly staple: Staple } | { readonly fault: string; readonly isRevoked: boolean }

export function judgeStaple(offered: Buffer | string, chain: Chain, nowMs: number): Judged {
  if (typeof offered === 'string') return { fault: offered, isRevoked: false }
  const certificate = issuedCertificate(chain)
  if (certificate === undefined) {
    const fault =
      'the certificate file lacks the certificate of the issuer: add it, so that the response can be checked'
    return { fault, isRevoked: false }
  }
  try {
    const { nextUpdateMs: untilMs } = checkOcspResponse(offered, certificate, nowMs)
    return { staple: { der: offered, certificate: thumbprintOf(chain), untilMs } }
  } catch (error) {
    return { fault: (error as Error).message, isRevoked: error instanceof Revoked }
  }
}

export function isSendable(staple: Staple | undefined, thumbprint: string, nowMs: number): staple is Staple {
  return staple !== undefined && staple.certificate === thumbprint && nowMs < staple.untilMs
}

export function issuedCertificate([leaf, ...others]: Chain): IssuedCertificate | undefined {
  const issuer = others.find((other) => isIssuer(other, leaf))
  return issuer && { leaf, issuer }
}

/** id-pe-tlsfeature (RFC 7633), whose only use is to demand an OCSP response. */
const TLS_FEATURE = Buffer.from('06082b06010505070118', 'hex')

/** True for Must-Staple: clients must refuse the certificate without a response. */
export function mustStaple({ raw }: X509Certificate): boolean {
  return raw.includes(TLS_FEATURE)
}

function thumbprintOf([leaf]: Chain): string {
  return hash('sha256', leaf.raw, 'hex')
}
