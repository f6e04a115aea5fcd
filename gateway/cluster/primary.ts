import { randomBytes } from 'node:crypto'
import { ConfigInForce } from '../admin/config-in-force.ts'
import { countedBy, exposeMerged, type MetricsSnapshot, mergedSnapshot } from '../admin/merged-metrics.ts'
import { createMetrics, type Metrics } from '../admin/metrics.ts'
import { openTrail } from '../audit/open-trail.ts'
import type { Trail } from '../audit/trail.ts'
import type { Settings } from '../config/settings.ts'
import { createServer } from '../http/syntax/status-codes.ts'
import { trailOptions } from '../process/data-files.ts'
import { passed, type Stop } from '../process/drain.ts'
import { listen } from '../process/public-listeners.ts'
import { watchFiles, watchTls } from '../process/reload/config-reloads.ts'
import { checkNow, type Reports, type Watching } from '../process/reload/reload-reports.ts'
import { prepareSeals, sealTrail } from '../process/seal-trail.ts'
import type { ServingMode } from '../process/serving-mode.ts'
import { gatewayIdOf } from '../process/shared-state.ts'
import type { StartupConfiguration } from '../process/startup-configuration.ts'
import { StoreWatch } from '../process/store-watch.ts'
import { PrimaryState } from './primary-state.ts'
import type { WorkerCommand, WorkerConfiguration } from './worker-messages.ts'
import { type EndedWorker, WorkerPool } from './worker-pool.ts'

/** Time that a worker has to end after the drain deadline. */
const AFTER_DEADLINE_MS = 5000
const SCRIPT = new URL(`./worker.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`, import.meta.url)

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
  readonly #watching: Watching[] = []
  /** The configuration in force, for new workers. */
  readonly #inForce: Pick<WorkerConfiguration, 'settings' | 'clients' | 'tls'>
  /** Counters of workers that have ended, as last reported. */
  #ended: readonly MetricsSnapshot[] = []
  #phase: 'starting' | 'serving' | 'draining' = 'starting'

  /** @throws when a required file or directory cannot be opened; the message names it */
  constructor(startup: StartupConfiguration) {
    const { settings, version, clients, tls, log } = startup
    this.#startup = startup
    this.#own = createMetrics({ version })
    this.metrics = {
      contentType: this.#own.contentType,
      expose: async () => exposeMerged(await this.#snapshots()),
    }
    const seals = prepareSeals(startup)
    this.trail = openTrail(trailOptions(startup, this.#own))
    this.#own.auditPending(() => this.trail.uncommittedRecords)
    sealTrail(startup, seals, { trail: this.trail, metrics: this.#own })
    const config = new ConfigInForce(startup)
    this.reports = { log, metrics: this.#own, trail: this.trail, clock: Date.now, config }
    const watch = new StoreWatch({ log, metrics: this.#own, trail: this.trail })
    this.#state = new PrimaryState(startup, watch, gatewayIdOf(this.#secret))
    this.limiter = this.#state.limiter
    this.#inForce = { settings, clients: clients?.value, tls: tls?.texts }
    this.#pool = new WorkerPool({
      size: settings.workers,
      script: SCRIPT,
      eventLog: this.#state.eventLog,
      workerData: (seat, name) => this.#configurationFor(seat, name),
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
    return this.#inForce.settings
  }

  async begin() {
    const { settings } = this.#inForce
    const port = await portOf(settings.host, settings.port)
    const tls = settings.tls && { ...settings.tls, port: await portOf(settings.host, settings.tls.port) }
    Object.assign(this.#inForce, { settings: { ...settings, port, tls } })
    this.#watch()
    await this.#pool.start()
    this.#phase = 'serving'
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

  reload(): Promise<void> {
    return checkNow(this.#watching)
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
    this.#unwatch()
    await stopped
    await this.#close(reason)
  }

  async abandon(reason: string): Promise<void> {
    this.#unwatch()
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

  #watch(): void {
    const { tls } = this.#startup
    const { settings } = this.#inForce
    const options = this.reports
    const enforce = {
      limits: this.#state.replaceTable.bind(this.#state),
      clients: (table: NonNullable<WorkerConfiguration['clients']>) => {
        Object.assign(this.#inForce, { clients: table })
        this.#post({ type: 'clients', table })
      },
      settings: (edited: Settings) => {
        const { port, tls: listener } = this.settings
        const settings = { ...edited, port, tls: listener }
        this.#startup.log.level = settings.logLevel
        this.#state.changeThrottle(settings)
        Object.assign(this.#inForce, { settings })
        this.#post({ type: 'settings', settings })
      },
    }
    const trust = { trust: tls?.material.trust }
    this.#watching.push(...watchFiles({ ...options, startup: this.#startup, tls: trust, enforce }))
    if (settings.tls === undefined || tls === undefined) return
    const watching = watchTls(options, {
      settings: settings.tls,
      loaded: tls,
      clients: () => this.#inForce.clients,
      enforce: (material, texts) => {
        trust.trust = material.trust
        Object.assign(this.#inForce, { tls: texts })
        this.#post({ type: 'tls', texts })
      },
    })
    this.#watching.push(watching)
  }

  #unwatch(): void {
    for (const watching of this.#watching) watching.stop()
  }

  #configurationFor(seat: number, name: string): WorkerConfiguration {
    return {
      name,
      seat,
      version: this.#startup.version,
      ...this.#inForce,
      ...this.#state.copy(),
      secret: this.#secret,
      trail: this.trail.handle,
    }
  }

  #onWorkerEnd({ name, threadId, why, lastReport, expected }: EndedWorker<MetricsSnapshot>): void {
    if (!expected) {
      this.#counted.workerDied()
      const recovered = this.trail.settleDeadWorker(threadId)
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

/**
 * The port that all workers will listen on. It must be free: otherwise two gateways would silently share connections.
 *
 * @throws CannotListen
 */
async function portOf(host: string, port: number): Promise<number> {
  const probe = createServer()
  const free = await listen(probe, { host, port })
  probe.close()
  return free
}
