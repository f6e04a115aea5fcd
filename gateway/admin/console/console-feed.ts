import type { Settings } from '../../config/settings.ts'
import type { Limiter } from '../../limits/limiter.ts'
import { NearestCallers } from '../../limits/nearest-callers.ts'
import { Attention } from './attention.ts'
import { type ConsoleSources, consoleState } from './console-state.ts'
import { pointBetween, type Totals, totalsOf } from './totals.ts'
import type { FeedFault, Moment, Point } from './wire.ts'

export interface Listener {
  /** Returns false when it takes no more events and is to be forgotten. */
  receive(event: string): boolean
  end(): void
}

interface FeedOptions extends ConsoleSources {
  readonly limiter: Pick<Limiter, 'inForce'>
  readonly clock?: () => number
}

/** How many consoles may listen at once. Probes need the other connections of the admin listener. */
export const MAX_LISTENERS = 10
const LIVE_MS = 1000
const HISTORY_MS = 5000
const HISTORY_POINTS = 180
/** One each 5 s, for rates over a minute. */
const PAST_TOTALS = 12

/** Sends the state to all open consoles each second. While none is open, it only reads counters, every 5 s. */
export class ConsoleFeed {
  readonly #options: FeedOptions
  readonly #clock: () => number
  readonly #listeners = new Set<Listener>()
  readonly #history: Point[] = []
  readonly #past: Totals[] = []
  #last: Totals | undefined
  readonly #attention = new Attention()
  /** Set only while a console is open, because it keeps the callers that it has looked at. */
  #callers: NearestCallers | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(options: FeedOptions) {
    this.#options = options
    this.#clock = options.clock ?? Date.now
  }

  start(): void {
    this.#setTimer(HISTORY_MS)
  }

  stop(): void {
    clearInterval(this.#timer)
    for (const listener of this.#listeners) listener.end()
    this.#listeners.clear()
  }

  get isFull(): boolean {
    return this.#listeners.size >= MAX_LISTENERS
  }

  add(listener: Listener): () => void {
    listener.receive(eventOf('history', this.#history))
    this.#listeners.add(listener)
    if (this.#callers === undefined) this.#goLive()
    return () => this.#forget(listener)
  }

  look(): void {
    try {
      this.#look()
    } catch (error) {
      this.#tell(eventOf('fault', { reason: String(error) } satisfies FeedFault))
    }
  }

  #look(): void {
    const totals = totalsOf(this.#options.metrics, this.#clock())
    if (totals.atMs < (this.#last?.atMs ?? 0)) this.#beginAnew()
    this.#remember(totals)
    const past = this.#past[0] ?? totals
    const { metrics, readiness, config } = this.#options
    metrics.causes.set('gateway_ready', readiness() ?? '')
    const routes = (config().parts.gateway?.rows ?? []) as readonly Settings['routes'][number][]
    const attention = this.#attention.look({ metrics, totals, past, routes })
    const callers = this.#callers
    if (this.#listeners.size > 0 && callers !== undefined) {
      const point = pointBetween(this.#last ?? past, totals)
      const state = consoleState({ sources: this.#options, callers, totals, past, attention })
      this.#tell(eventOf('moment', { point, state } satisfies Moment))
    }
    this.#last = totals
  }

  /** Drops earlier moments after the clock was set back: plots only go forward. */
  #beginAnew(): void {
    this.#history.length = 0
    this.#past.length = 0
    this.#last = undefined
  }

  #remember(totals: Totals): void {
    const before = this.#past.at(-1)
    if (before !== undefined && totals.atMs - before.atMs < HISTORY_MS - LIVE_MS / 2) return
    if (before !== undefined) this.#history.push(pointBetween(before, totals))
    this.#past.push(totals)
    if (this.#past.length > PAST_TOTALS) this.#past.shift()
    if (this.#history.length > HISTORY_POINTS) this.#history.shift()
  }

  #tell(event: string): void {
    for (const listener of this.#listeners) if (!listener.receive(event)) this.#forget(listener)
  }

  #goLive(): void {
    this.#callers = new NearestCallers(this.#options.limiter)
    this.#setTimer(LIVE_MS)
    this.look()
  }

  #forget(listener: Listener): void {
    if (!this.#listeners.delete(listener)) return
    listener.end()
    if (this.#listeners.size > 0) return
    this.#callers = undefined
    this.#setTimer(HISTORY_MS)
  }

  #setTimer(intervalMs: number): void {
    clearInterval(this.#timer)
    this.#timer = setInterval(() => this.look(), intervalMs).unref()
  }
}

function eventOf(name: 'history' | 'moment' | 'fault', data: object): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`
}
