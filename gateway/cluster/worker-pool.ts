import { type ResourceLimits, Worker } from 'node:worker_threads'
import type { EventLog } from './event-log.ts'
import type { Question, Report } from './worker-messages.ts'

/** A worker that has ended. */
export interface Ended<Answer> {
  readonly name: string
  readonly threadId: number
  readonly why: string
  /** Its last answer. */
  readonly lastAnswer: Answer | undefined
  /** It was told to stop. */
  readonly expected: boolean
}

export interface WorkerPoolOptions<Answer> {
  readonly size: number
  /** The module that each worker runs. */
  readonly script: URL
  readonly eventLog: Pick<EventLog, 'seatNext' | 'vacate' | 'beatsOf'>
  /** Makes the `workerData` of a worker, in the same turn of the event loop in which it takes its seat. */
  readonly begin: (seat: number, name: string) => object
  /** Called once for each worker, before it is replaced. */
  readonly onEnd: (ended: Ended<Answer>) => void
  /** A worker without a heartbeat for this long is terminated. Milliseconds. */
  readonly hungMs?: number
  /** Of each worker; the defaults of Node when left out. */
  readonly resourceLimits?: ResourceLimits
}

interface Member<Answer> {
  readonly name: string
  readonly seat: number
  readonly worker: Worker
  readonly threadId: number
  serving: boolean
  why: string
  lastAnswer: Answer | undefined
  beats: number
  beatAtMs: number
}

const HUNG_MS = 10_000
/** Delay before a worker is replaced whose predecessor also failed early; doubles each time. */
const FIRST_DELAY_MS = 100
const LONGEST_DELAY_MS = 10_000
/** A worker that has served this long counts as stable. */
const LASTED_MS = 5_000
/** After this time the last answer of a busy worker is used. */
const ANSWER_MS = 1_000

/** The worker threads: started together, each replaced when it dies, stopped together. */
export class WorkerPool<Answer> {
  readonly #options: WorkerPoolOptions<Answer>
  readonly #members = new Set<Member<Answer>>()
  readonly #asked = new Map<number, () => void>()
  readonly #watch: NodeJS.Timeout
  #questions = 0
  #started = false
  #stopping = false
  #delayMs = 0
  #emptied = Promise.withResolvers<void>()

  constructor(options: WorkerPoolOptions<Answer>) {
    this.#options = options
    const hungMs = options.hungMs ?? HUNG_MS
    this.#watch = setInterval(() => this.#endHung(hungMs), hungMs / 10)
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

  /** Sends a message to every present worker. */
  post(message: object): void {
    for (const { worker } of this.#members) worker.postMessage(message)
  }

  /** Asks every worker. For one that does not answer soon, its last answer is used, if any. */
  async ask(): Promise<Answer[]> {
    const late = Promise.withResolvers<void>()
    const timer = setTimeout(late.resolve, ANSWER_MS)
    const answers = [...this.#members].filter(({ serving }) => serving).map((member) => this.#ask(member))
    await Promise.race([Promise.all(answers), late.promise])
    clearTimeout(timer)
    return [...this.#members].flatMap(({ lastAnswer }) => (lastAnswer === undefined ? [] : [lastAnswer]))
  }

  /** Tells every worker to end, and terminates those that still run after `deadlineMs`. Resolves when none is left. */
  async stop(message: object, deadlineMs: number): Promise<void> {
    this.#stopping = true
    clearInterval(this.#watch)
    this.post(message)
    const deadline = setTimeout(() => {
      for (const { worker } of this.#members) void worker.terminate()
    }, deadlineMs)
    if (this.#members.size > 0) await this.#emptied.promise
    clearTimeout(deadline)
  }

  #launch(name: string): Promise<void> {
    const { script, eventLog, begin, resourceLimits } = this.#options
    const seat = eventLog.seatNext()
    if (seat === undefined) return Promise.reject(new Error('there is no seat for another worker'))
    const worker = new Worker(script, { workerData: begin(seat, name), name, resourceLimits })
    const member: Member<Answer> = {
      name,
      seat,
      worker,
      threadId: worker.threadId,
      serving: false,
      why: '',
      lastAnswer: undefined,
      beats: 0,
      beatAtMs: performance.now(),
    }
    this.#members.add(member)
    const begun = Promise.withResolvers<void>()
    worker.on('message', (report: Report<Answer>) => this.#receive(member, report, begun.resolve))
    worker.on('error', (error: unknown) => {
      member.why = error instanceof Error ? (error.stack ?? error.message) : String(error)
    })
    worker.on('exit', (code) => {
      begun.reject(new Error(`${name} ended before it served: ${member.why || `exit code ${code}`}`))
      this.#ended(member, code)
    })
    return begun.promise
  }

  #receive(member: Member<Answer>, report: Report<Answer>, begun: () => void): void {
    if (report.type === 'serving') {
      member.serving = true
      begun()
      setTimeout(() => {
        if (this.#members.has(member)) this.#delayMs = 0
      }, LASTED_MS).unref()
      return
    }
    member.lastAnswer = report.answer
    this.#asked.get(report.id)?.()
  }

  #ask(member: Member<Answer>): Promise<void> {
    const id = this.#questions++
    const answered = Promise.withResolvers<void>()
    const done = () => {
      this.#asked.delete(id)
      answered.resolve()
    }
    this.#asked.set(id, done)
    member.worker.once('exit', done)
    const question: Question = { type: 'ask', id }
    member.worker.postMessage(question)
    return answered.promise.finally(() => member.worker.off('exit', done))
  }

  #ended(member: Member<Answer>, code: number): void {
    const { name, seat, threadId, lastAnswer } = member
    this.#members.delete(member)
    this.#options.eventLog.vacate(seat)
    const why = member.why || `exit code ${code}`
    this.#options.onEnd({ name, threadId, why, lastAnswer, expected: this.#stopping && code === 0 })
    if (this.#stopping) {
      if (this.#members.size === 0) this.#emptied.resolve()
    } else if (this.#started) this.#replace(name)
  }

  /** Without delay the first time. */
  #replace(name: string): void {
    const delayMs = this.#delayMs
    this.#delayMs = Math.min(LONGEST_DELAY_MS, Math.max(FIRST_DELAY_MS, delayMs * 2))
    setTimeout(() => {
      // A failure is reported by `onEnd`.
      if (!this.#stopping) this.#launch(name).catch(() => {})
    }, delayMs)
  }

  #endHung(hungMs: number): void {
    const nowMs = performance.now()
    for (const member of this.#members) {
      const beats = this.#options.eventLog.beatsOf(member.seat)
      if (beats !== member.beats || !member.serving) {
        member.beats = beats
        member.beatAtMs = nowMs
      } else if (nowMs - member.beatAtMs > hungMs) {
        member.why = `it did not turn its loop for ${Math.round(nowMs - member.beatAtMs)} ms`
        void member.worker.terminate()
      }
    }
  }
}
