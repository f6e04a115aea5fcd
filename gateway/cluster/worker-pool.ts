import { once } from 'node:events'
import { type ResourceLimits, Worker } from 'node:worker_threads'
import type { EventLog } from './event-log.ts'
import type { HandOverMessage, WorkerMessage } from './worker-messages.ts'

export interface EndedWorker<Report> {
  readonly name: string
  readonly threadId: number
  readonly why: string
  readonly lastReport: Report | undefined
  /** The pool is stopping and the worker ended without an error. */
  readonly expected: boolean
}

export interface WorkerPoolOptions<Report> {
  readonly size: number
  /** The module that each worker runs. */
  readonly script: URL
  readonly eventLog: EventLog
  /** What the worker gets in `begin`. Called in the turn of the event loop in which it gets its seat. */
  readonly configuration: (seat: number, name: string) => object
  /** Threads that run the module already, by `startThreads`. */
  readonly spare?: Worker[]
  /** Called for what workers say about a hand-over. */
  readonly onMessage?: (threadId: number, message: HandOverMessage) => void
  /** Called once for each worker, before it is replaced. */
  readonly onEnd: (ended: EndedWorker<Report>) => void
  /** A worker without a heartbeat for this long is terminated. Milliseconds. */
  readonly hungMs?: number
  /** Of each worker; Node's defaults when left out. */
  readonly resourceLimits?: ResourceLimits
}

interface Member<Report> {
  readonly name: string
  /** Undefined until the thread has loaded its program. */
  seat: number | undefined
  readonly worker: Worker
  readonly threadId: number
  serving: boolean
  why: string
  lastReport: Report | undefined
  /** Called at the next report, or when the worker ends. */
  waiting: (() => void)[]
  heartbeats: number
  heartbeatAtMs: number
}

const HUNG_MS = 10_000
/** Delay before a worker is replaced whose predecessor died early too; doubles each time. */
const FIRST_DELAY_MS = 100
const LONGEST_DELAY_MS = 10_000
/** A worker that has served this long is stable. */
const STABLE_MS = 5_000
/** After this time the last report of a busy worker is used. */
const REPORT_MS = 1_000

/** Threads that load the module, for a pool that begins later. Resolves when all have. @throws Error when one ends */
export async function startThreads(size: number, script: URL): Promise<Worker[]> {
  const threads = Array.from({ length: size }, () => new Worker(script))
  await Promise.all(threads.map((thread) => once(thread, 'message')))
  return threads
}

/** The worker threads: started together, each replaced when it dies, stopped together. */
export class WorkerPool<Report> {
  readonly #options: WorkerPoolOptions<Report>
  readonly #members = new Set<Member<Report>>()
  readonly #watch: NodeJS.Timeout
  #started = false
  #stopping = false
  /** Those that ended while no worker is to be replaced; undefined: they are replaced. */
  #missing: string[] | undefined
  #delayMs = 0
  #emptied = Promise.withResolvers<void>()

  constructor(options: WorkerPoolOptions<Report>) {
    this.#options = options
    const hungMs = options.hungMs ?? HUNG_MS
    this.#watch = setInterval(() => this.#terminateHung(hungMs), hungMs / 10)
    this.#watch.unref()
  }

  /** Number of workers, including those that do not serve yet. */
  get size(): number {
    return this.#members.size
  }

  /** Number of workers that serve now. */
  get serving(): number {
    let serving = 0
    for (const member of this.#members) if (member.serving) serving++
    return serving
  }

  /** Resolves when all workers serve; rejects when one ends before that. */
  async start(): Promise<void> {
    const starts = Array.from({ length: this.#options.size }, (_, index) =>
      this.#launch(`worker-${index + 1}`),
    )
    await Promise.all(starts)
    this.#started = true
  }

  /** Sends a message to every present worker that has begun, or to that one. */
  post(message: object, threadId?: number): void {
    for (const { worker, seat, threadId: id } of this.#members)
      if (seat !== undefined && (threadId === undefined || threadId === id)) worker.postMessage(message)
  }

  /** From now on workers that end are not replaced. */
  pauseReplacing(): void {
    this.#missing ??= []
  }

  /** Replaces those that have ended meanwhile too. */
  resumeReplacing(): void {
    const missing = this.#missing ?? []
    this.#missing = undefined
    for (const name of missing) this.#replace(name)
  }

  /** Asks every worker for a report. For one that is too busy its last report is used, if any. */
  async collectReports(): Promise<Report[]> {
    const late = Promise.withResolvers<void>()
    const timer = setTimeout(late.resolve, REPORT_MS)
    const asked = [...this.#members].filter(({ serving }) => serving).map((member) => this.#ask(member))
    await Promise.race([Promise.all(asked), late.promise])
    clearTimeout(timer)
    return [...this.#members].flatMap(({ lastReport }) => (lastReport === undefined ? [] : [lastReport]))
  }

  /** Sends the message to every worker, and terminates those that still run after `deadlineMs`. Resolves when none is left. */
  async stop(message: object, deadlineMs: number): Promise<void> {
    this.#stopping = true
    clearInterval(this.#watch)
    this.post(message)
    for (const { worker, seat } of this.#members) if (seat === undefined) void worker.terminate()
    const deadline = setTimeout(() => {
      for (const { worker } of this.#members) void worker.terminate()
    }, deadlineMs)
    if (this.#members.size > 0) await this.#emptied.promise
    clearTimeout(deadline)
  }

  #launch(name: string): Promise<void> {
    const { script, resourceLimits, spare } = this.#options
    const ready = spare?.pop()
    const worker = ready ?? new Worker(script, { name, resourceLimits })
    const member: Member<Report> = {
      name,
      seat: undefined,
      worker,
      threadId: worker.threadId,
      serving: false,
      why: '',
      lastReport: undefined,
      waiting: [],
      heartbeats: 0,
      heartbeatAtMs: performance.now(),
    }
    this.#members.add(member)
    const served = Promise.withResolvers<void>()
    worker.on('message', (message: WorkerMessage<Report>) => this.#receive(member, message, served.resolve))
    worker.on('error', (error: unknown) => {
      member.why = error instanceof Error ? (error.stack ?? error.message) : String(error)
    })
    worker.on('exit', (code) => {
      served.reject(new Error(`${name} ended before it served: ${member.why || `exit code ${code}`}`))
      this.#ended(member, code)
    })
    if (ready !== undefined) this.#begin(member)
    return served.promise
  }

  /** Takes a seat and begins; from now on the worker must read the event log. */
  #begin(member: Member<Report>): void {
    const { eventLog, configuration } = this.#options
    const { worker, name } = member
    const seat = eventLog.takeSeat()
    if (seat === undefined) {
      member.why = 'there is no seat for another worker'
      void worker.terminate()
      return
    }
    member.seat = seat
    worker.postMessage({ type: 'begin', configuration: configuration(seat, name) })
  }

  #receive(member: Member<Report>, message: WorkerMessage<Report>, served: () => void): void {
    if (message.type === 'loaded') this.#begin(member)
    else if (message.type === 'serving') {
      member.serving = true
      served()
      setTimeout(() => {
        if (this.#members.has(member)) this.#delayMs = 0
      }, STABLE_MS).unref()
    } else if (message.type === 'report') {
      member.lastReport = message.report
      for (const done of member.waiting.splice(0)) done()
    } else this.#options.onMessage?.(member.threadId, message)
  }

  #ask({ waiting, worker }: Member<Report>): Promise<void> {
    worker.postMessage({ type: 'report' })
    return new Promise((resolve) => waiting.push(resolve))
  }

  #ended(member: Member<Report>, code: number): void {
    const { name, seat, threadId, lastReport, waiting } = member
    this.#members.delete(member)
    for (const done of waiting) done()
    if (seat !== undefined) this.#options.eventLog.freeSeat(seat)
    const why = member.why || `exit code ${code}`
    this.#options.onEnd({ name, threadId, why, lastReport, expected: this.#stopping && code === 0 })
    if (this.#stopping) {
      if (this.#members.size === 0) this.#emptied.resolve()
    } else if (this.#started) this.#replace(name)
  }

  /** Without delay the first time. */
  #replace(name: string): void {
    if (this.#missing !== undefined) {
      this.#missing.push(name)
      return
    }
    const delayMs = this.#delayMs
    this.#delayMs = Math.min(LONGEST_DELAY_MS, Math.max(FIRST_DELAY_MS, delayMs * 2))
    setTimeout(() => {
      // A failure is reported by `onEnd`.
      if (this.#missing !== undefined) this.#missing.push(name)
      else if (!this.#stopping) this.#launch(name).catch(() => {})
    }, delayMs)
  }

  #terminateHung(hungMs: number): void {
    const nowMs = performance.now()
    for (const member of this.#members) {
      const heartbeats = member.seat === undefined ? 0 : this.#options.eventLog.heartbeatsOf(member.seat)
      if (heartbeats !== member.heartbeats || !member.serving) {
        member.heartbeats = heartbeats
        member.heartbeatAtMs = nowMs
      } else if (nowMs - member.heartbeatAtMs > hungMs) {
        member.why = `its event loop was blocked for ${Math.round(nowMs - member.heartbeatAtMs)} ms`
        void member.worker.terminate()
      }
    }
  }
}
