import { type ResourceLimits, Worker } from 'node:worker_threads'
import type { EventLog } from './event-log.ts'
import type { Question, Report } from './worker-messages.ts'

/** A thread that has ended without being asked to, or is the last of a drain. */
export interface Ended<Answer> {
  readonly name: string
  readonly threadId: number
  readonly why: string
  /** What it last answered. */
  readonly lastAnswer: Answer | undefined
  /** It had been told to stop. */
  readonly expected: boolean
}

export interface WorkerPoolOptions<Answer> {
  readonly size: number
  /** What each thread runs. */
  readonly script: URL
  readonly eventLog: Pick<EventLog, 'seatNext' | 'vacate' | 'beatsOf'>
  /** What a thread of that seat begins with; called in the same turn in which it is given the seat. */
  readonly begin: (seat: number, name: string) => object
  /** Called once for each thread, before another takes its place. */
  readonly onEnd: (ended: Ended<Answer>) => void
  /** A thread that does not turn its loop for so long is ended. Milliseconds. */
  readonly hungMs?: number
  /** Of each thread; those of the system when left out. */
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
/** After this time a thread is replaced whose predecessor did not last either; twice as long each time. */
const FIRST_DELAY_MS = 100
const LONGEST_DELAY_MS = 10_000
/** A thread that has served for so long has lasted. */
const LASTED_MS = 5_000
/** One that is busy for longer is counted as of its last answer. */
const ANSWER_MS = 1_000

/** The threads that serve: started together, each replaced when it dies, stopped together. */
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

  /** How many there are, serving or not yet. */
  get size(): number {
    return this.#members.size
  }

  /** How many serve now. */
  get serving(): number {
    let serving = 0
    for (const member of this.#members) if (member.serving) serving++
    return serving
  }

  /** Resolves when all serve; rejects when one ends before. */
  async start(): Promise<void> {
    const starts = Array.from({ length: this.#options.size }, (_, index) =>
      this.#launch(`worker-${index + 1}`),
    )
    await Promise.all(starts)
    this.#started = true
  }

  /** Tells something to every thread, and to none that is still to come. */
  post(message: object): void {
    for (const { worker } of this.#members) worker.postMessage(message)
  }

  /** Asks every thread; of one that does not answer soon the last answer it gave, if there is one, stands. */
  async ask(): Promise<Answer[]> {
    const late = Promise.withResolvers<void>()
    const timer = setTimeout(late.resolve, ANSWER_MS)
    const answers = [...this.#members].filter(({ serving }) => serving).map((member) => this.#ask(member))
    await Promise.race([Promise.all(answers), late.promise])
    clearTimeout(timer)
    return [...this.#members].flatMap(({ lastAnswer }) => (lastAnswer === undefined ? [] : [lastAnswer]))
  }

  /** Tells every thread to end; those that have not within that time are ended. Resolves when none is left. */
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

  /** At once the first time: others have only as many cores as they had. */
  #replace(name: string): void {
    const delayMs = this.#delayMs
    this.#delayMs = Math.min(LONGEST_DELAY_MS, Math.max(FIRST_DELAY_MS, delayMs * 2))
    setTimeout(() => {
      // What comes of it is heard by its end.
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
