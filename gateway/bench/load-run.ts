import { connect, type Socket } from 'node:net'
import { createHistogram, type RecordableHistogram } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as connectSecurely, type TLSSocket } from 'node:tls'
import { cpuTimeOf } from './kernel.ts'
import type { LoadJob, LoadResult, Quantiles } from './load-job.ts'
import { Pace } from './pace.ts'
import { ResponseReader } from './response-reader.ts'

const READ_BYTES = 64 * 1024
/** Connections are opened in groups, because a listener's queue is bounded. */
const CONNECT_AT_ONCE = 64
/** Open loop: the rate at which connections send first requests, before the load. Any contender keeps up with it. */
const FIRST_PER_SECOND = 2500
const MAX_WAIT_MS = 10_000
const LONGEST_US = 2 ** 32

interface LoadConnection {
  readonly socket: Socket
  readonly reader: ResponseReader
  readonly index: number
  readonly token: number
  /** Open loop: when its request was due. */
  dueMs: number
}

export interface Cycle {
  turn: number
}

const NUMBER = 'REQUEST-NUMBER--'
/** Begins with the clock's microseconds, so that no process repeats an earlier one's numbers. */
let lastNumber = Date.now() * 1000

/** One job, from the first connection to the last response. */
export class LoadRun {
  readonly #job: LoadJob
  readonly #requests: readonly Buffer[]
  readonly #cycle: Cycle
  /** Where requests have `NUMBER`; -1: nowhere. */
  readonly #numbersAt: readonly number[]
  readonly #sign: ((request: Buffer, index: number) => void) | undefined
  readonly #sockets = new Set<Socket>()
  readonly #failed = Promise.withResolvers<never>()
  /** Connections without a request; in an open loop only those from `#freeFrom` on. */
  readonly #free: LoadConnection[] = []
  #freeFrom = 0
  /** Due times of requests for which no connection was free. */
  readonly #late: number[] = []
  #lateFrom = 0
  #pace: Pace | undefined = undefined
  #measureFromMs = Number.POSITIVE_INFINITY
  readonly #latencyUs = createHistogram({ highest: LONGEST_US })
  readonly #latenessUs = createHistogram({ highest: LONGEST_US })
  #responses = 0
  #underWay = 0
  #stopping = false
  #random = 1
  #drained: (() => void) | undefined = undefined
  #session: Buffer | undefined = undefined

  /**
   * @param cycle the previous run's, so that a token comes again only after all others
   * @param sign signs a request before it is sent
   */
  constructor(
    job: LoadJob,
    requests: readonly Buffer[],
    cycle: Cycle = { turn: 0 },
    sign?: (request: Buffer, index: number) => void,
  ) {
    this.#job = job
    this.#requests = requests.map((request) => (request.includes(NUMBER) ? Buffer.from(request) : request))
    this.#numbersAt = requests.map((request) => request.indexOf(NUMBER))
    this.#cycle = cycle
    this.#sign = sign
    // A fault that nobody awaits just then must not end the process.
    this.#failed.promise.catch(() => {})
  }

  /** Closed loop: each connection sends the next request after a response. Rejects for a wrong response. */
  async closedLoop(): Promise<LoadResult> {
    return this.#carryOut(() => {
      for (const connection of this.#free.splice(0)) this.#send(connection)
    })
  }

  /** Open loop: sends requests at a fixed rate, whenever responses come. Meanwhile `tick` must be called often. */
  async openLoop(perSecond: number): Promise<LoadResult> {
    const { warmUpMs, measureMs } = this.#job
    return this.#carryOut(() => {
      const startMs = performance.now()
      const count = Math.floor((perSecond * (warmUpMs + measureMs)) / 1000)
      this.#measureFromMs = startMs + warmUpMs
      this.#pace = new Pace({ startMs, perSecond, count })
    })
  }

  /** Starts due requests. */
  tick(): void {
    const pace = this.#pace
    if (pace === undefined) return
    const nowMs = performance.now()
    for (let dueMs = pace.take(nowMs); dueMs !== undefined; dueMs = pace.take(nowMs)) {
      if (dueMs >= this.#measureFromMs) recordMs(this.#latenessUs, nowMs - dueMs)
      const connection = this.#nextFree()
      if (connection === undefined) this.#late.push(dueMs)
      else this.#sendDue(connection, dueMs)
    }
  }

  async #carryOut(begin: () => void): Promise<LoadResult> {
    try {
      await this.#connectAll()
      if (this.#job.perSecond !== undefined) await this.#useAll()
      begin()
      await this.#wait(this.#job.warmUpMs)
      const before = this.#reading()
      await this.#wait(this.#job.measureMs)
      const after = this.#reading()
      this.#stopping = this.#pace === undefined
      await this.#drain()
      return {
        responses: after.responses - before.responses,
        seconds: (after.atMs - before.atMs) / 1000,
        cpu: { userUs: after.userUs - before.userUs, systemUs: after.systemUs - before.systemUs },
        ...(this.#job.storePids && { storeUs: after.storeUs - before.storeUs }),
        latencyUs: this.#pace === undefined ? undefined : quantilesOf(this.#latencyUs),
        latenessUs: this.#pace === undefined ? undefined : quantilesOf(this.#latenessUs),
      }
    } finally {
      for (const socket of this.#sockets) socket.destroy()
    }
  }

  async #useAll(): Promise<void> {
    this.#measureFromMs = Number.POSITIVE_INFINITY
    const count = this.#job.connections
    this.#pace = new Pace({ startMs: performance.now(), perSecond: FIRST_PER_SECOND, count })
    await this.#drain()
  }

  #reading() {
    const { pids, storePids = [] } = this.#job
    const store = cpuTimeOf(storePids)
    const storeUs = store.userUs + store.systemUs
    return { ...cpuTimeOf(pids), storeUs, responses: this.#responses, atMs: performance.now() }
  }

  async #wait(ms: number): Promise<void> {
    await Promise.race([sleep(ms), this.#failed.promise])
  }

  async #drain(): Promise<void> {
    const waiting = new AbortController()
    const drained = new Promise<void>((resolve) => {
      this.#drained = resolve
      this.#settle()
    })
    const late = sleep(MAX_WAIT_MS, undefined, { signal: waiting.signal }).then(
      () => Promise.reject(new Error(`${this.#underWay} responses did not come`)),
      () => {},
    )
    try {
      await Promise.race([drained, late, this.#failed.promise])
    } finally {
      waiting.abort()
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
      const reader = new ResponseReader(this.#job.request.responseBytes)
      const { tls = false, renewal } = this.#job
      const options = {
        host: '127.0.0.1',
        port: this.#job.ports[index % this.#job.ports.length] as number,
        noDelay: true,
        onread: {
          buffer: used ? Buffer.allocUnsafeSlow(READ_BYTES) : Buffer.alloc(1),
          callback: (length: number, buffer: Uint8Array) =>
            this.#take(connection, buffer.subarray(0, length) as Buffer),
        },
      }
      const session = renewal === 'resumed' ? this.#session : undefined
      const socket = tls
        ? connectSecurely({ ...options, rejectUnauthorized: false, servername: 'localhost', session })
        : connect(options)
      const connection: LoadConnection = {
        socket,
        reader,
        index,
        token: index % this.#requests.length,
        dueMs: 0,
      }
      this.#sockets.add(socket)
      socket.on('error', (error) => this.#failed.reject(error))
      socket.on('end', () => {
        if (!socket.destroyed) this.#failed.reject(new Error('the connection was closed'))
      })
      if (renewal === 'resumed') {
        socket.on('session', (given: Buffer) => {
          this.#session = given
        })
      }
      socket.on(tls ? 'secureConnect' : 'connect', () => {
        if (session !== undefined && !(socket as TLSSocket).isSessionReused()) {
          this.#failed.reject(new Error('a session was not resumed'))
        }
        if (used) this.#free.push(connection)
        resolve()
      })
    })
  }

  #take(connection: LoadConnection, bytes: Buffer): boolean {
    try {
      if (connection.reader.take(bytes)) this.#responded(connection)
    } catch (error) {
      this.#failed.reject(error)
    }
    return true
  }

  #responded(connection: LoadConnection): void {
    this.#responses += 1
    this.#underWay -= 1
    if (this.#job.renewal !== undefined) {
      this.#renew(connection)
      return
    }
    if (this.#pace === undefined) {
      if (!this.#stopping) this.#send(connection)
      else this.#settle()
      return
    }
    if (connection.dueMs >= this.#measureFromMs)
      recordMs(this.#latencyUs, performance.now() - connection.dueMs)
    const waiting = this.#late[this.#lateFrom]
    if (waiting === undefined) {
      this.#free.push(connection)
      this.#settle()
    } else {
      this.#lateFrom += 1
      this.#sendDue(connection, waiting)
    }
  }

  /** Closed loop: the next request uses a new connection. */
  #renew({ socket, index }: LoadConnection): void {
    socket.destroy()
    this.#sockets.delete(socket)
    if (this.#stopping) {
      this.#settle()
      return
    }
    // The old request counts as under way until the new connection sends.
    this.#underWay += 1
    void this.#open(index, true).then(() => {
      this.#underWay -= 1
      const next = this.#free.pop()
      if (next !== undefined) this.#send(next)
    })
  }

  /** Open loop: the connection that was free longest. */
  #nextFree(): LoadConnection | undefined {
    const connection = this.#free[this.#freeFrom]
    if (connection !== undefined) this.#freeFrom += 1
    return connection
  }

  #sendDue(connection: LoadConnection, dueMs: number): void {
    connection.dueMs = dueMs
    this.#send(connection)
  }

  #send(connection: LoadConnection): void {
    this.#underWay += 1
    const index = this.#next(connection)
    const request = this.#requests[index] as Buffer
    const numberAt = this.#numbersAt[index] as number
    if (numberAt !== -1) request.write(String(++lastNumber), numberAt, 'latin1')
    this.#sign?.(request, index)
    connection.socket.write(request)
  }

  #next(connection: LoadConnection): number {
    const { order } = this.#job.request
    if (order === 'own') return connection.token
    if (order === 'cyclic') {
      this.#cycle.turn = (this.#cycle.turn + 1) % this.#requests.length
      return this.#cycle.turn
    }
    // Numerical Recipes' generator: the same sequence in every run.
    this.#random = (Math.imul(this.#random, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((this.#random / 2 ** 32) * this.#requests.length)
  }
}

/** Histograms take whole numbers from 1. */
function recordMs(histogramUs: RecordableHistogram, durationMs: number): void {
  histogramUs.record(Math.max(1, Math.round(durationMs * 1000)))
}

function quantilesOf(histogram: RecordableHistogram): Quantiles {
  const { count } = histogram
  if (count === 0) return { count, p50: 0, p99: 0, p999: 0 }
  const [p50, p99, p999] = [50, 99, 99.9].map((percent) => histogram.percentile(percent)) as [
    number,
    number,
    number,
  ]
  return { count, p50, p99, p999 }
}
