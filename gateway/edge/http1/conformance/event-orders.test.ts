import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { LONGER } from '../../../e2e/long-runs.ts'
import { readThrough, respond, type Seen, scribe, serverOf, wireTo } from './scribe.test-support.ts'
import { turns, type Wire } from './wire.test-support.ts'

/** How a request is sent, and how the handler treats it. */
interface Plan {
  readonly method: string
  readonly version: string
  /** The Connection field; empty without one. */
  readonly option: string
  readonly framing: 'none' | 'length' | 'chunks'
  /** Approximate bytes of the body. */
  readonly bytes: number
  /** When the response comes: at once, behind the request's body, or after so many more steps of the client. */
  readonly when: 'at once' | 'behind' | number
  readonly bounded: boolean
  /** True when the handler holds the response back for a while. */
  readonly held: boolean
  readonly breaksOff: boolean
}

type Event = 'send' | 'turn' | 'stall' | 'take' | 'end' | 'gone' | 'read'

const plan: fc.Arbitrary<Plan> = fc.record({
  method: fc.constantFrom('GET', 'POST', 'POST', 'HEAD'),
  version: fc.constantFrom('1.1', '1.1', '1.1', '1.1', '1.0'),
  option: fc.constantFrom('', '', '', '', 'keep-alive', 'close'),
  framing: fc.constantFrom('none', 'length', 'length', 'chunks'),
  bytes: fc.constantFrom(1, 10, 200, 100_000),
  when: fc.oneof(fc.constantFrom('at once' as const, 'behind' as const, 'behind' as const), fc.nat(12)),
  bounded: fc.boolean(),
  held: fc.constantFrom(false, false, false, true),
  breaksOff: fc.constantFrom(...Array<boolean>(15).fill(false), true),
})
const event: fc.Arbitrary<Event> = fc.constantFrom(
  ...Array<Event>(12).fill('send'),
  ...(['turn', 'turn', 'turn', 'turn', 'stall', 'take', 'take', 'read', 'read'] as const),
)
const last: fc.Arbitrary<Event | undefined> = fc.constantFrom(undefined, undefined, 'end', 'end', 'gone')

/** A body in which every byte says whose it is. */
function bodyOf({ framing, bytes }: Plan, i: number): string {
  return framing === 'none' ? '' : `<${i}>`.repeat(Math.ceil(bytes / 3))
}

function textOf(plan: Plan, i: number): string {
  const { method, version, option, framing } = plan
  const body = bodyOf(plan, i)
  const chunked = framing === 'chunks' && version === '1.1'
  const lines = [`${method} /${i} HTTP/${version}`]
  if (option !== '') lines.push(`Connection: ${option}`)
  if (chunked) lines.push('Transfer-Encoding: chunked')
  else if (framing !== 'none') lines.push(`Content-Length: ${body.length}`)
  const pieces = body.match(/.{1,60000}/g) ?? []
  const chunks = pieces.map((piece) => `${piece.length.toString(16)}\r\n${piece}\r\n`)
  return `${lines.join('\r\n')}\r\n\r\n${chunked ? `${chunks.join('')}0\r\n\r\n` : body}`
}

/** One connection, from its beginning to its end. */
class Life {
  readonly plans: readonly Plan[]
  readonly handler = scribe({ begun: (seen) => this.#begun(seen), refused: (seen) => respond(seen.res) })
  readonly http = serverOf(this.handler)
  readonly wire: Wire = wireTo(this.http)
  #later: { left: number; act: () => void }[] = []

  constructor(plans: readonly Plan[]) {
    this.plans = plans
  }

  #begun(seen: Seen): void {
    // Requests begin in their order.
    assert.equal(seen.target, `/${this.handler.seen.length - 1}`)
    for (const { closes } of this.handler.seen.slice(0, -1)) assert.equal(closes, 1)
    const { when } = this.#planOf(seen)
    if (when === 'at once') this.#respond(seen)
    else readThrough(seen, () => when === 'behind' && this.#respond(seen))
    if (typeof when === 'number') this.#later.push({ left: when, act: () => this.#respond(seen) })
  }

  #planOf(seen: Seen): Plan {
    return this.plans[Number(seen.target.slice(1))] as Plan
  }

  #respond(seen: Seen): void {
    const { held, bounded, breaksOff } = this.#planOf(seen)
    const release = held ? seen.res.hold() : undefined
    if (breaksOff && seen.closes === 0) {
      seen.res.writeHead({ status: 200, lines: 'Content-Length: 9\r\n', contentLength: 9, dated: true })
      seen.res.breakOff()
    } else respond(seen.res, { body: `response ${seen.target.slice(1)}`, bounded })
    if (release !== undefined) this.#later.push({ left: 2, act: release })
  }

  /** Time passes for responses that come later. */
  pass(): void {
    for (const one of [...this.#later]) if (one.left-- === 0) one.act()
    this.#later = this.#later.filter(({ left }) => left >= 0)
  }

  /** Waits until nothing happens any more. */
  async settle(): Promise<void> {
    let before = ''
    for (let quiet = 0; quiet < 6; quiet++) {
      this.pass()
      await turns(1)
      const now = `${this.handler.seen.length} ${this.wire.received.length} ${this.wire.destroyed}`
      if (now !== before || this.#later.length > 0) quiet = 0
      before = now
    }
  }

  check(): void {
    for (const [i, seen] of this.handler.seen.entries()) {
      if (seen.fault !== undefined) continue
      const body = bodyOf(this.plans[i] as Plan, i)
      assert.ok(body.startsWith(seen.text), `request ${i} has another's bytes`)
      if (seen.whole) assert.equal(seen.text.length, body.length)
    }
    const responses = [...this.wire.received.matchAll(/response (\d+)/g)].map(([, i]) => Number(i))
    assert.deepEqual(
      responses,
      [...responses].sort((a, b) => a - b),
      'responses out of order',
    )
    assert.equal(new Set(responses).size, responses.length)
  }
}

async function live(
  plans: readonly Plan[],
  events: readonly Event[],
  sizes: readonly number[],
  end: Event | undefined,
) {
  const life = new Life(plans)
  const { wire, handler, http } = life
  const text = plans.map(textOf).join('')
  let at = 0
  let step = 0
  const send = (least = 0) => {
    const size = Math.max(least, sizes[step++ % sizes.length] as number)
    wire.send(text.slice(at, at + size))
    at += size
  }
  for (const event of events) {
    if (event === 'send') send()
    else if (event === 'stall' || event === 'take') wire.stall(event === 'stall')
    else await turns(event === 'turn' ? 1 : 3)
    life.pass()
  }
  if (end === undefined) while (at < text.length) send(Math.ceil(text.length / 50))
  else if (end === 'end') wire.sendEnd()
  else wire.destroy()
  wire.stall(false)
  await life.settle()
  life.check()
  const most = countUntil(plans, closes)
  // All was sent and nothing was broken off, so every request has a response.
  if (end === undefined) {
    assert.ok(handler.seen.length >= countUntil(plans, mayClose))
    if (!wire.wasReset) for (const { closes } of handler.seen) assert.equal(closes, 1)
    http.closeIdleConnections()
    if (!plans.some(mayClose)) assert.equal(wire.destroyed, true, 'an idle connection is closed')
  }
  assert.ok(handler.seen.length <= most)
  wire.destroy()
  await turns()
  for (const { closes } of handler.seen) assert.equal(closes, 1)
}

/** How many requests begin, if none begins behind the first that is `last`. */
function countUntil(plans: readonly Plan[], last: (plan: Plan) => boolean): number {
  const at = plans.findIndex(last)
  return at < 0 ? plans.length : at + 1
}

/** True when nothing is read behind the request, whatever becomes of it. */
function closes({ version, option }: Plan): boolean {
  return option === 'close' || (version === '1.0' && option !== 'keep-alive')
}

/** True when nothing may be read behind the request. */
function mayClose(plan: Plan): boolean {
  const { version, framing, when, bounded, breaksOff } = plan
  // Only the end of the connection ends the response, or the response may come before the end of the request's body.
  return (
    closes(plan) || breaksOff || (version === '1.0' && !bounded) || (when !== 'behind' && framing !== 'none')
  )
}

describe('a connection, whatever happens on it in whatever order,', () => {
  it('closes every request once, responds in order, and counts every byte for the request it belongs to', async () => {
    const property = fc.asyncProperty(
      fc.array(plan, { minLength: 1, maxLength: 6 }),
      fc.array(event, { maxLength: 40 }),
      fc.array(fc.constantFrom(1, 3, 20, 100, 1000, 70_000), { minLength: 1, maxLength: 8 }),
      last,
      live,
    )
    await fc.assert(property, { numRuns: 2000 * LONGER })
  })
})
