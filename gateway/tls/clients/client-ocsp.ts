import { X509Certificate } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { createSender, type Send } from '../../outgoing/sender.ts'
import { askResponder } from '../stapling/ask-responder.ts'
import { checkOcspResponse, Revoked, responderOf, Unknown } from '../stapling/ocsp-response.ts'
import type { PeerCertificate } from './peer.ts'

type Outcome = 'good' | 'revoked' | 'unknown' | 'unavailable' | 'no_responder'

interface Answer {
  readonly outcome: Outcome
  /** End of a sentence about the certificate. */
  readonly reason: string
  /** Time from which a request waits for another answer, on the steady clock. */
  readonly untilMs: number
  /** `nextUpdate` of a good answer, on the wall clock. It also ends the answer. */
  readonly nextUpdateMs?: number
  /** `thisUpdate` of a good or revoking answer. */
  readonly thisUpdateMs?: number
}

interface Known extends Answer {
  /** Time from which a request asks again, but does not wait, on the steady clock. */
  readonly againMs: number
}

interface Responder {
  readonly send: Send
  /** Unanswered questions since the last response. */
  silences: number
  /** Nobody waits for the responder until then. */
  pausedUntilMs: number
}

interface ClientOcspOptions {
  /** Rule while there is no good answer: `soft` accepts the certificate, `hard` does not. */
  readonly mode: 'soft' | 'hard'
  readonly clock: () => number
  /** Setting back the wall clock must not delay the next question. */
  readonly steadyClock?: () => number
  readonly onAnswer: (outcome: Outcome, thumbprintHex: string, reason: string) => void
  readonly sendTo?: (url: string) => Send
}

const MINUTE_MS = 60_000
const DEADLINE_MS = 3000
/** Requests at once to one responder. Further ones wait, within their deadline. */
const CONNECTIONS = 4
const MAX_RESPONDERS = 64
const MAX_CERTIFICATES = 10_000
/** A responder that sets no nextUpdate makes a new answer each time, so an older one may be a replay. */
const MAX_AGE_WITHOUT_END_MS = 10 * MINUTE_MS
const MAX_GOOD_MS = 24 * 60 * MINUTE_MS
const MAX_PAUSE_MS = 60 * MINUTE_MS
const REFUSED_MS = 60 * MINUTE_MS
const FRUITLESS_PAUSE_MS = 10_000
const MAX_SILENCES = 3

/** Asks the responder of a client's leaf certificate whether it was revoked (RFC 6960), without a nonce. */
export class ClientOcsp {
  readonly #options: ClientOcspOptions
  readonly #steadyClock: () => number
  /** Answers by thumbprint. */
  readonly #known = new LRUCache<string, Known>({ max: MAX_CERTIFICATES })
  readonly #asking = new Map<string, Promise<void>>()
  readonly #responders = new LRUCache<string, Responder>({ max: MAX_RESPONDERS })

  constructor(options: ClientOcspOptions) {
    this.#options = options
    this.#steadyClock = options.steadyClock ?? (() => performance.now())
  }

  /** Undefined: there is nothing to wait for. */
  whenKnown(peer: PeerCertificate | undefined): Promise<void> | undefined {
    if (peer?.authorized !== true) return undefined
    const known = this.#known.get(peer.thumbprintHex)
    return known === undefined || this.#isOver(known) ? this.#ask(peer) : undefined
  }

  #isOver({ untilMs, nextUpdateMs = Number.POSITIVE_INFINITY }: Answer): boolean {
    return this.#steadyClock() >= untilMs || this.#options.clock() >= nextUpdateMs
  }

  judge(peer: PeerCertificate): PeerCertificate {
    if (!peer.authorized) return peer
    const known = this.#known.get(peer.thumbprintHex)
    if (known === undefined || this.#steadyClock() >= known.againMs) void this.#ask(peer)
    if (known?.outcome === 'revoked' || known?.outcome === 'unknown')
      return { ...peer, authorized: false, reason: known.reason }
    if (this.#options.mode === 'soft' || (known?.outcome === 'good' && !this.#isOver(known))) return peer
    const reason = known?.outcome === 'good' ? 'the answer of its responder has expired' : known?.reason
    return {
      ...peer,
      authorized: false,
      reason: reason ?? 'its responder has not answered',
      ...(known?.outcome !== 'no_responder' && { isUnchecked: true }),
    }
  }

  /** Undefined while the responder has a pause. */
  #ask({ thumbprintHex: key, der, authorities: [issuer] }: PeerCertificate): Promise<void> | undefined {
    const asked = this.#asking.get(key)
    if (asked !== undefined) return asked
    const leaf = new X509Certificate(der)
    const responder = this.#responderAt(responderOf(leaf))
    if (responder !== undefined && this.#hasPause(responder)) return undefined
    const asking = this.#answerFor(leaf, issuer, responder).then((answer) => {
      this.#asking.delete(key)
      this.#options.onAnswer(answer.outcome, key, answer.reason)
      this.#known.set(key, this.#settled(answer, this.#known.get(key)))
    })
    this.#asking.set(key, asking)
    return asking
  }

  /** After a failed question, an earlier good answer counts to its end, and a refusal until the next answer. */
  #settled(answer: Answer, before: Known | undefined): Known {
    const nowMs = this.#steadyClock()
    const { thisUpdateMs: sinceMs = 0 } = answer
    // A cache or an attacker may repeat an answer from before the revocation.
    if (answer.outcome === 'good' && before?.outcome === 'revoked' && sinceMs < (before.thisUpdateMs ?? 0))
      return { ...before, againMs: nowMs + MINUTE_MS, untilMs: nowMs + REFUSED_MS }
    if (answer.outcome === 'good') {
      const pauseMs = Math.min((answer.untilMs - nowMs) / 2, MAX_PAUSE_MS)
      return { ...answer, againMs: nowMs + pauseMs }
    }
    const againMs = nowMs + (answer.outcome === 'unavailable' ? FRUITLESS_PAUSE_MS : MINUTE_MS)
    if (answer.outcome !== 'unavailable' || before === undefined) return { ...answer, againMs }
    if (before.outcome === 'good' && !this.#isOver(before)) return { ...before, againMs }
    const isRefused = before.outcome === 'revoked' || before.outcome === 'unknown'
    return isRefused ? { ...before, againMs, untilMs: answer.untilMs } : { ...answer, againMs }
  }

  /** Never rejects. */
  async #answerFor(
    leaf: X509Certificate,
    issuer: X509Certificate | undefined,
    responder: Responder | undefined,
  ): Promise<Answer> {
    const untilMs = this.#steadyClock() + REFUSED_MS
    if (issuer === undefined || responder === undefined)
      return { outcome: 'no_responder', reason: 'it names no OCSP responder with an http URL', untilMs }
    try {
      const response = await askResponder({ leaf, issuer }, (request) => this.#send(responder, request))
      const nowMs = this.#options.clock()
      const { thisUpdateMs, nextUpdateMs } = checkOcspResponse(
        response,
        { leaf, issuer },
        nowMs,
        MAX_AGE_WITHOUT_END_MS,
      )
      const goodMs = Math.min(nextUpdateMs - nowMs, MAX_GOOD_MS)
      return {
        outcome: 'good',
        reason: '',
        untilMs: this.#steadyClock() + goodMs,
        thisUpdateMs,
        nextUpdateMs,
      }
    } catch (error) {
      if (error instanceof Revoked) {
        const { thisUpdateMs } = error
        return { outcome: 'revoked', reason: 'it was revoked (OCSP)', untilMs, thisUpdateMs }
      }
      if (error instanceof Unknown)
        return { outcome: 'unknown', reason: 'its responder does not know it (OCSP)', untilMs }
      const reason = `its responder gives no good answer: ${(error as Error).message}`
      return { outcome: 'unavailable', reason, untilMs: this.#steadyClock() + MINUTE_MS }
    }
  }

  /** One question tries a silent responder again every 10 s. */
  #hasPause(responder: Responder): boolean {
    const nowMs = this.#steadyClock()
    if (responder.silences < MAX_SILENCES) return false
    if (nowMs < responder.pausedUntilMs) return true
    responder.pausedUntilMs = nowMs + FRUITLESS_PAUSE_MS
    return false
  }

  async #send(responder: Responder, request: Parameters<Send>[0]): ReturnType<Send> {
    try {
      const response = await responder.send(request)
      responder.silences = 0
      return response
    } catch (error) {
      responder.silences += 1
      responder.pausedUntilMs = this.#steadyClock() + FRUITLESS_PAUSE_MS
      throw error
    }
  }

  #responderAt(url: string | undefined): Responder | undefined {
    if (url === undefined) return undefined
    const { sendTo = (to) => createSender({ url: to, timeoutMs: DEADLINE_MS, connections: CONNECTIONS }) } =
      this.#options
    const known = this.#responders.get(url)
    if (known !== undefined) return known
    const responder = { send: sendTo(url), silences: 0, pausedUntilMs: 0 }
    this.#responders.set(url, responder)
    return responder
  }
}
