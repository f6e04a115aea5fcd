import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { AnswerReader } from './answer-reader.ts'
import { Histogram } from './histogram.ts'
import { cpuTimeOf } from './kernel.ts'
import type { LoadJob, LoadResult } from './load-job.ts'
import { Pace } from './pace.ts'

const READ_BYTES = 64 * 1024
/** Connections are made in groups: a listener's queue is not endless. */
const CONNECT_AT_ONCE = 64
/** How long the answers to the last requests are waited for. */
const PATIENCE_MS = 10_000

/** A connection with at most one request under way. */
interface Lane {
  readonly socket: Socket
  readonly reader: AnswerReader
  readonly token: number
  /** Open loop: when its request was meant to start. */
  dueMs: number
}

/** One job of the load generator, from the first connection to the last answer. */
export class LoadRun {
  readonly #job: LoadJob
  readonly #requests: readonly Buffer[]
  readonly #sockets: Socket[] = []
  readonly #failed = Promise.withResolvers<never>()
  readonly #free: Lane[] = []
  /** Requests that are due while no connection is free, by when they were meant to start. */
  readonly #late: number[] = []
  #lateFrom = 0
  #pace: Pace | undefined = undefined
  #measureFromMs = Number.POSITIVE_INFINITY
  readonly #latency = new Histogram()
  readonly #lateness = new Histogram()
  #answers = 0
  #underWay = 0
  #stopping = false
  #turn = 0
  #random = 1
  #drained: (() => void) | undefined = undefined

  constructor(job: LoadJob, requests: readonly Buffer[]) {
    this.#job = job
    this.#requests = requests
    // Heard when it is raced; a fault between two races must not end the process.
    this.#failed.promise.catch(() => {})
  }

  /** Each connection asks again as soon as it has its answer. Rejects for a wrong answer. */
  async closedLoop(): Promise<LoadResult> {
    return this.#carryOut(() => {
      for (const lane of this.#free.splice(0)) this.#send(lane)
    })
  }

  /** Requests at a fixed rate, whatever the answers do. `tick` must be called as often as the rate needs. */
  async openLoop(perSecond: number): Promise<LoadResult> {
    const { warmUpMs, measureMs } = this.#job
    return this.#carryOut(() => {
      const startMs = performance.now()
      const count = Math.floor((perSecond * (warmUpMs + measureMs)) / 1000)
      this.#measureFromMs = startMs + warmUpMs
      this.#pace = new Pace({ startMs, perSecond, count })
    })
  }

  /** Starts what is due. */
  tick(): void {
    const pace = this.#pace
    if (pace === undefined) return
    const nowMs = performance.now()
    for (let dueMs = pace.take(nowMs); dueMs !== undefined; dueMs = pace.take(nowMs)) {
      if (dueMs >= this.#measureFromMs) this.#lateness.record((nowMs - dueMs) * 1000)
      const lane = this.#free.pop()
      if (lane === undefined) this.#late.push(dueMs)
      else this.#sendDue(lane, dueMs)
    }
  }

  async #carryOut(begin: () => void): Promise<LoadResult> {
    try {
      await this.#connectAll()
      begin()
      await this.#wait(this.#job.warmUpMs)
      const before = this.#reading()
      await this.#wait(this.#job.measureMs)
      const after = this.#reading()
      this.#stopping = this.#pace === undefined
      await this.#drain()
      return {
        answers: after.answers - before.answers,
        seconds: (after.atMs - before.atMs) / 1000,
        cpu: { userUs: after.userUs - before.userUs, systemUs: after.systemUs - before.systemUs },
        latency: this.#pace === undefined ? undefined : this.#latency.counts(),
        lateness: this.#pace === undefined ? undefined : this.#lateness.counts(),
      }
    } finally {
      for (const socket of this.#sockets) socket.destroy()
    }
  }

  #reading() {
    return { ...cpuTimeOf(this.#job.pids), answers: this.#answers, atMs: performance.now() }
  }

  async #wait(ms: number): Promise<void> {
    await Promise.race([sleep(ms), this.#failed.promise])
  }

  async #drain(): Promise<void> {
    const patience = new AbortController()
    const drained = new Promise<void>((resolve) => {
      this.#drained = resolve
      this.#settle()
    })
    const late = sleep(PATIENCE_MS, undefined, { signal: patience.signal }).then(
      () => Promise.reject(new Error(`${this.#underWay} answers did not come`)),
      () => {},
    )
    try {
      await Promise.race([drained, late, this.#failed.promise])
    } finally {
      patience.abort()
    }
  }

  #settle(): void {
    if (this.#underWay === 0 && this.#pace?.dueMs === undefined) this.#drained?.()
  }

  async #connectAll(): Promise<void> {
    const { connections, idleConnections } = this.#job
    const all = connections + idleConnections
    for (let from = 0; from < all; from += CONNECT_AT_ONCE) {
      const group = Array.from({ length: Math.min(CONNECT_AT_ONCE, all - from) }, (_, i) => from + i)
      await Promise.race([
        Promise.all(group.map((index) => this.#open(index, index < connections))),
        this.#failed.promise,
      ])
    }
  }

  #open(index: number, used: boolean): Promise<void> {
    return new Promise((resolve) => {
      const reader = new AnswerReader(this.#job.request.answerBytes)
      const socket = connect({
        host: '127.0.0.1',
        port: this.#job.ports[index % this.#job.ports.length] as number,
        noDelay: true,
        onread: {
          buffer: used ? Buffer.allocUnsafeSlow(READ_BYTES) : Buffer.alloc(1),
          callback: (length, buffer) => this.#take(lane, buffer.subarray(0, length) as Buffer),
        },
      })
      const lane: Lane = { socket, reader, token: index % this.#requests.length, dueMs: 0 }
      this.#sockets.push(socket)
      socket.on('error', (error) => this.#failed.reject(error))
      socket.on('end', () => this.#failed.reject(new Error('the connection was closed')))
      socket.on('connect', () => {
        if (used) this.#free.push(lane)
        resolve()
      })
    })
  }

  #take(lane: Lane, bytes: Buffer): boolean {
    try {
      if (lane.reader.take(bytes)) this.#answered(lane)
    } catch (error) {
      this.#failed.reject(error)
    }
    return true
  }

  #answered(lane: Lane): void {
    this.#answers += 1
    this.#underWay -= 1
    if (this.#pace === undefined) {
      if (!this.#stopping) this.#send(lane)
      else this.#settle()
      return
    }
    if (lane.dueMs >= this.#measureFromMs) this.#latency.record((performance.now() - lane.dueMs) * 1000)
    const waiting = this.#late[this.#lateFrom]
    if (waiting === undefined) {
      this.#free.push(lane)
      this.#settle()
    } else {
      this.#lateFrom += 1
      this.#sendDue(lane, waiting)
    }
  }

  #sendDue(lane: Lane, dueMs: number): void {
    lane.dueMs = dueMs
    this.#send(lane)
  }

  #send(lane: Lane): void {
    this.#underWay += 1
    lane.socket.write(this.#requests[this.#next(lane)] as Buffer)
  }

  #next(lane: Lane): number {
    const { order } = this.#job.request
    if (order === 'own') return lane.token
    if (order === 'cyclic') {
      this.#turn = this.#turn + 1 === this.#requests.length ? 0 : this.#turn + 1
      return this.#turn
    }
    // Numerical Recipes' generator: the same sequence in every run.
    this.#random = (Math.imul(this.#random, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((this.#random / 2 ** 32) * this.#requests.length)
  }
}
