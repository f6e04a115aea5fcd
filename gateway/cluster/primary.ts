import { randomBytes } from 'node:crypto'
import type { Worker } from 'node:worker_threads'
import { ConfigInForce } from '../admin/config-in-force.ts'
import { countedBy, exposeMerged, type MetricsSnapshot, mergedSnapshot } from '../admin/merged-metrics.ts'
import { createMetrics, type Metrics } from '../admin/metrics.ts'
import { beginTrail } from '../audit/open-trail.ts'
import type { InheritedRequests } from '../audit/recovery/inherited-requests.ts'
import type { Trail } from '../audit/trail.ts'
import type { Settings } from '../config/settings.ts'
import { trailOptions } from '../process/data-files.ts'
import { passed, type Stop } from '../process/drain.ts'
import { freePort } from '../process/public-listeners.ts'
import type { Reports, Watching } from '../process/reload/reload-reports.ts'
import { HandOver } from '../process/restart/hand-over.ts'
import type { Inheritance } from '../process/restart/predecessor.ts'
import { type PassedConnection, type PassedSocket, portOfSocket } from '../process/restart/sockets.ts'
import { prepareSeals, sealTrail } from '../process/seal-trail.ts'
import type { ServingMode } from '../process/serving-mode.ts'
import { gatewayIdOf } from '../process/shared-state.ts'
import type { StartupConfiguration } from '../process/startup-configuration.ts'
import { StoreWatch } from '../process/store-watch.ts'
import { randomDayKey, TicketKeys } from '../tls/listener/ticket-keys.ts'
import { PrimaryState } from './primary-state.ts'
import { PublishedConfiguration } from './published-configuration.ts'
import type { WorkerCommand, WorkerConfiguration } from './worker-messages.ts'
import { type EndedWorker, startThreads, WorkerPool } from './worker-pool.ts'
import { shareOf, WorkerThread } from './worker-thread.ts'

/** Time that a worker has to end after the drain deadline. */
const AFTER_DEADLINE_MS = 5000
const SCRIPT = new URL(`./worker.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`, import.meta.url)

/** What a process with workers gets from the one that it takes over from. */
export interface Succession {
  readonly inheritance: Inheritance
  /** Workers that have loaded their program, so that nobody waits for that while nobody serves. */
  readonly spare: Worker[]
}

/** Resolves when so many workers can begin at once. */
export function prepareWorkers(count: number): Promise<Worker[]> {
  return startThreads(count, SCRIPT)
}

/**
 * The main thread of a gateway with workers. It serves no requests. It opens the audit trail and the limit journal, keeps a
 * copy of the shared state, watches the configuration files, and starts and replaces workers.
 */
export class Primary implements ServingMode {
  readonly trail: Trail
  readonly metrics: Pick<Metrics, 'expose' | 'contentType'>
  readonly reports: Reports
  readonly limiter: ServingMode['limiter']
  readonly #startup: StartupConfiguration
  readonly #own: Metrics
  readonly #counted: ReturnType<Metrics['state']>
  readonly #state: PrimaryState
  readonly #pool: WorkerPool<MetricsSnapshot>
  readonly #secret = randomBytes(32)
  readonly #tickets: TicketKeys
  readonly #inheritance: Inheritance | undefined
  readonly #inherited: InheritedRequests | undefined
  /** By thread: workers that serve. */
  readonly #threads = new Map<number, WorkerThread>()
  /** Workers that have ended while the trail was suspended. */
  readonly #unsettled: number[] = []
  #isSuspended = false
  handOver: HandOver | undefined
  /** Of the next worker that gets sockets and connections of the process before. */
  #nextShare = 0
  #nextAdopter = 0
  readonly #configuration: PublishedConfiguration
  /** Counters of workers that have ended, as last reported. */
  #ended: readonly MetricsSnapshot[] = []
  #phase: 'starting' | 'serving' | 'draining' = 'starting'

  /** @throws when a required file or directory cannot be opened; the message names it */
  constructor(startup: StartupConfiguration, succession?: Succession) {
    const { settings, version, tls, log } = startup
    this.#startup = startup
    this.#own = createMetrics({ version })
    this.metrics = {
      contentType: this.#own.contentType,
      expose: async () => exposeMerged(await this.#snapshots()),
    }
    const seals = prepareSeals(startup)
    this.#inheritance = succession?.inheritance
    const { trail, inherited } = beginTrail(trailOptions(startup, this.#own), succession !== undefined)
    this.trail = trail
    this.#inherited = inherited
    this.#own.auditPending(() => this.trail.uncommittedRecords)
    sealTrail(startup, seals, { trail: this.trail, metrics: this.#own })
    const config = new ConfigInForce(startup)
    this.reports = { log, metrics: this.#own, trail: this.trail, clock: Date.now, config }
    const watch = new StoreWatch({ log, metrics: this.#own, trail: this.trail })
    const gatewayId = gatewayIdOf(this.#secret)
    this.#state = new PrimaryState(startup, { watch, gatewayId }, succession?.inheritance.state)
    this.limiter = this.#state.limiter
    this.#tickets = new TicketKeys(succession?.inheritance.state.tickets ?? randomDayKey(Date.now()))
    this.#configuration = new PublishedConfiguration({
      startup,
      state: this.#state,
      post: (command) => this.#post(command),
    })
    this.#pool = new WorkerPool({
      size: settings.workers,
      script: SCRIPT,
      eventLog: this.#state.eventLog,
      configuration: (seat, name) => this.#configurationFor(seat, name),
      ...(succession && { spare: succession.spare }),
      onMessage: (threadId, message) => this.#threadOf(threadId).receive(message),
      onEnd: (ended) => this.#onWorkerEnd(ended),
    })
    this.#counted = this.#own.state({
      isReady: () => this.notReady() === undefined,
      isTrailWritable: () => this.trail.writable && this.#state.eventLog.allHealthy,
      workers: () => this.#pool.serving,
    })
    for (const warning of tls?.material.warnings ?? []) log.warn({ warning }, 'tls')
  }

  /** With the ports that all workers listen on. */
  get settings(): Settings {
    return this.#configuration.inForce.settings
  }

  async begin() {
    const { settings } = this
    const { http, https } = this.#inheritance?.listeners ?? {}
    const port = portOfSocket(http?.[0]) ?? (await freePort(settings.host, settings.port))
    const tls = settings.tls && {
      ...settings.tls,
      port: portOfSocket(https?.[0]) ?? (await freePort(settings.host, settings.tls.port)),
    }
    this.#configuration.watch({ ...settings, port, tls }, this.reports)
    await this.#pool.start()
    this.#phase = 'serving'
    this.handOver = this.#makeHandOver()
    this.#inheritance?.predecessor.serve({
      trail: this.trail,
      inherited: this.#inherited,
      sessions: this.#state,
      adopt: (connection) => this.#adopt(connection),
    })
    return { port, tlsPort: tls?.port }
  }

  notReady(): string | undefined {
    if (this.#phase !== 'serving') return this.#phase
    if (this.#pool.serving === 0) return 'no worker serves'
    const isWritable = this.trail.recheck() && this.#state.eventLog.allHealthy
    return isWritable ? this.#state.whyUnready : 'the audit trail cannot be written'
  }

  degraded(): string | undefined {
    return this.#state.whyDegraded
  }

  watch(file: Watching): void {
    this.#configuration.add(file)
  }

  reload(): Promise<void> {
    return this.#configuration.check()
  }

  async drain({ reason, graceMs, hurry }: Stop): Promise<void> {
    const { log } = this.#startup
    this.#phase = 'draining'
    log.info({ workers: this.#pool.serving, reason, graceMs }, 'draining')
    void hurry.then(() => this.#post({ type: 'hurry' }))
    const message: WorkerCommand = { type: 'drain', reason, graceMs }
    const stopped = this.#pool.stop(message, graceMs + this.settings.timeouts.drainMs + AFTER_DEADLINE_MS)
    // Until the grace ends, edits still take effect.
    await passed(graceMs, hurry)
    this.#configuration.stop()
    await stopped
    await this.#inheritance?.predecessor.over(hurry)
    await this.#close(reason)
  }

  async abandon(reason: string): Promise<void> {
    this.#configuration.stop()
    await this.#pool.stop({ type: 'hurry' } satisfies WorkerCommand, 0)
    await this.#close(reason)
  }

  #close(reason: string): Promise<void> {
    this.#state.close()
    return this.trail.end(reason)
  }

  #post(message: WorkerCommand): void {
    this.#pool.post(message)
  }

  #makeHandOver(): HandOver {
    const state = this.#state
    return new HandOver({
      log: this.#startup.log,
      trail: this.trail,
      threads: () => [...this.#threads.values()],
      files: {
        suspend: (keys) => {
          this.#isSuspended = true
          return state.suspend(keys)
        },
        resume: () => state.resume(),
      },
      tickets: this.#tickets,
      sessions: state,
      obstacle: () =>
        this.#pool.serving === this.settings.workers
          ? state.whyNotHandedOver(this.trail)
          : 'a worker is being replaced: try again later',
      begin: () => this.#pool.pauseReplacing(),
      back: () => {
        this.#isSuspended = false
        for (const threadId of this.#unsettled.splice(0)) this.trail.settleDeadWorker(threadId)
        this.#pool.resumeReplacing()
      },
      unwatch: () => this.#configuration.stop(),
      close: () => state.leave(),
    })
  }

  #threadOf(threadId: number): WorkerThread {
    let thread = this.#threads.get(threadId)
    if (thread === undefined) {
      thread = new WorkerThread((command) => this.#pool.post(command, threadId))
      this.#threads.set(threadId, thread)
    }
    return thread
  }

  /** The worker owns the descriptor from now on; this object is left as it is, a few hundred bytes until the next restart. */
  #adopt(connection: PassedConnection<PassedSocket>): void {
    const threads = [...this.#threads.keys()]
    const threadId = threads[this.#nextAdopter++ % threads.length]
    const { socket } = connection
    if (threadId === undefined) socket.close()
    else this.#pool.post({ type: 'adopt', connection: { ...connection, socket: socket.fd } }, threadId)
  }

  #configurationFor(seat: number, name: string): WorkerConfiguration {
    const { listeners = {}, state } = this.#inheritance ?? {}
    const { workers } = this.#startup.settings
    const share = this.#nextShare++
    const isHeir = share < workers
    return {
      name,
      seat,
      version: this.#startup.version,
      ...this.#configuration.inForce,
      ...this.#state.copy(),
      secret: this.#secret,
      trail: this.trail.handle,
      // Who comes later fetches them: those of then may have been withdrawn.
      keys: isHeir && state !== undefined ? state.keys : [],
      tickets: this.#tickets.dayKey(Date.now()),
      open: isHeir ? shareOf(listeners, share, workers) : {},
    }
  }

  #onWorkerEnd({ name, threadId, why, lastReport, expected }: EndedWorker<MetricsSnapshot>): void {
    this.#threads.get(threadId)?.ended()
    this.#threads.delete(threadId)
    if (!expected) {
      this.#counted.workerDied()
      // Another process may have the trail: it then settles all that this one leaves.
      if (this.#isSuspended) this.#unsettled.push(threadId)
      const recovered = this.#isSuspended ? undefined : this.trail.settleDeadWorker(threadId)
      this.#startup.log.error({ worker: name, cause: why, recovered }, 'a worker has died')
    }
    // Counters must not decrease, so those of ended workers are kept.
    if (lastReport !== undefined) this.#ended = [countedBy([...this.#ended, lastReport])]
  }

  async collect(): Promise<MetricsSnapshot> {
    return mergedSnapshot(await this.#snapshots())
  }

  async #snapshots(): Promise<MetricsSnapshot[]> {
    const own = await this.#own.snapshot()
    const workers = await this.#pool.collectReports()
    return [own, ...workers, ...this.#ended]
  }
}
