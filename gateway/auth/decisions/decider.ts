import { LRUCache } from 'lru-cache'
import type { DeciderTerms } from '../../config/settings.ts'
import { parseCheckedJson } from '../../edge/bodies/checked-json.ts'
import { APPLICATION_JSON, bareMediaType } from '../../edge/syntax/media-type.ts'
import { createSender, type IncomingResponse, type Send } from '../../outgoing/sender.ts'
import { sha256 } from '../keys/thumbprint.ts'
import { type Asked, MAX_CALLS, Questions, refusesOne, type Unasked, WHY_UNASKED } from '../questions.ts'
import type { Caller } from '../tokens/fair-turns.ts'
import { isJsonObject, type JsonObject } from '../tokens/jws.ts'

export interface Decision {
  /** Only `allowed` and `denied` are decisions. */
  readonly outcome: 'allowed' | 'denied' | 'failed' | Unasked
  /** The decider's name for the decision: 1 to 128 visible ASCII characters. */
  readonly id?: string | undefined
  /** For the log. */
  readonly cause?: string
}

interface DeciderOptions {
  readonly steadyClock?: () => number
  /** Reports why the decider gives no decision, once in each outage. */
  readonly onFault: (cause: string) => void
  readonly send?: Send
}

interface Asking extends Caller {
  readonly requestId: string
}

const CACHE_SIZE = 10_000
const ID = /^[\x21-\x7e]{1,128}$/

/** Asks a decider (AuthZEN Authorization API 1.0 section 6). */
export class Decider {
  readonly #terms: DeciderTerms
  readonly #onFault: (cause: string) => void
  readonly #send: Send
  readonly #steadyClock: () => number
  readonly #questions: Questions<Decision>
  /** By the hash of the question. `untilMs` is on the steady clock. */
  readonly #known: LRUCache<string, { readonly decision: Decision; readonly untilMs: number }>
  #asked = 0
  #isReported = false

  constructor(terms: DeciderTerms, options: DeciderOptions) {
    const { url, timeoutMs } = terms
    this.#terms = terms
    this.#onFault = options.onFault
    this.#send = options.send ?? createSender({ url, timeoutMs, connections: MAX_CALLS })
    this.#steadyClock = options.steadyClock ?? (() => performance.now())
    this.#known = new LRUCache({ max: CACHE_SIZE })
    this.#questions = new Questions({
      timeoutMs,
      steadyClock: this.#steadyClock,
      unasked: (why) => ({ outcome: why, cause: `${url} was not asked: ${WHY_UNASKED[why]}` }),
    })
  }

  /** Returns a promise only when the decider must be asked. Never throws or rejects. */
  decide(question: string, caller: Asking): Decision | Promise<Decision> {
    const isCached = this.#terms.cacheMs > 0
    const name = isCached ? sha256(question) : String(this.#asked++)
    const known = isCached ? this.#known.get(name) : undefined
    if (known !== undefined && this.#steadyClock() < known.untilMs) return known.decision
    return this.#questions.put({
      name,
      caller,
      ask: () => this.#ask(question, caller.requestId, name),
      again: () => this.decide(question, caller),
    })
  }

  async #ask(question: string, requestId: string, name: string): Promise<Asked<Decision>> {
    const { url, cacheMs } = this.#terms
    let statusCode = 0
    try {
      const response = await this.#send({
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'application/json',
          'x-request-id': requestId,
        },
        body: Buffer.from(question),
      })
      statusCode = response.statusCode
      const decision = readDecision(response, requestId)
      if (cacheMs > 0) this.#known.set(name, { decision, untilMs: this.#steadyClock() + cacheMs })
      this.#isReported = false
      return { answer: decision, isThere: true }
    } catch (error) {
      const cause = (error as Error).message
      if (!this.#isReported) this.#onFault(cause)
      this.#isReported = true
      return { answer: { outcome: 'failed', cause: `${url}: ${cause}` }, isThere: refusesOne(statusCode) }
    }
  }
}

/** Reads a decision. Its X-Request-ID, if any, must be that of the question (section 10.1.3). @throws Error */
function readDecision({ statusCode, headers, body }: IncomingResponse, requestId: string): Decision {
  if (statusCode !== 200) throw new Error(`the response has status ${statusCode}, not 200`)
  if ([headers['x-request-id'] ?? []].flat().some((id) => id !== requestId))
    throw new Error('X-Request-ID of the response is that of another question')
  if (!APPLICATION_JSON.test(bareMediaType(String(headers['content-type'] ?? ''))))
    throw new Error('the response is not application/json')
  const json = parseCheckedJson(body)
  if ('fault' in json) throw new Error(`the response ${json.fault}`)
  const { decision, context } = membersOf(json.value)
  if (typeof decision !== 'boolean') throw new Error('the response has no "decision" that is true or false')
  const id = [membersOf(context).id, headers['x-request-id']].find(
    (one): one is string => typeof one === 'string' && ID.test(one),
  )
  return { outcome: decision ? 'allowed' : 'denied', id }
}

function membersOf(value: unknown): JsonObject {
  return isJsonObject(value) ? value : {}
}
