import { randomBytes } from 'node:crypto'
import { countedBy, exposeMerged, type MetricsSnapshot } from '../admin/merged-metrics.ts'
import { createMetrics, type Metrics } from '../admin/metrics.ts'
import { openTrail } from '../audit/open-trail.ts'
import type { Trail } from '../audit/trail.ts'
import { createServer } from '../http/syntax/status-codes.ts'
import { trailOptions } from '../process/assemble.ts'
import { type Watching, watchFiles, watchTls } from '../process/config-reloads.ts'
import { passed, type Stop } from '../process/drain.ts'
import { listen } from '../process/public-listeners.ts'
import type { ServingMode } from '../process/serving-mode.ts'
import type { StartupConfiguration } from '../process/startup-configuration.ts'
import { StoreWatch } from '../process/store-watch.ts'
import { PrimaryState } from './primary-state.ts'
import type { WorkerCommand, WorkerConfiguration } from './worker-configuration.ts'
import { type Ended, WorkerPool } from './worker-pool.ts'

/** Time that a worker has to end after the drain deadline. */
const LAST_MOMENTS_MS = 5000
/** Seats in the audit trail for dead workers that are not settled yet. */
const SPARE_SEATS = 8
const SCRIPT = new URL(`./worker.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`, import.meta.url)

/**
 * The main thread of a gateway with workers. It serves no requests. It opens the audit trail and the limit journal, keeps a
 * copy of the shared state, watches the configuration files, and starts and replaces workers.
 */
export class Primary implements ServingMode {
  readonly trail: Trail
  readonly metrics: Pick<Metrics, 'expose' | 'contentType'>
  readonly #startup: StartupConfiguration
  readonly #own: Metrics
  readonly #state: PrimaryState
  readonly #pool: WorkerPool<MetricsSnapshot>
  readonly #nonceSecret = randomBytes(32)
  readonly #watching: Watching[] = []
  /** The configuration in force, for new workers. */
  readonly #inForce: Pick<WorkerConfiguration, 'settings' | 'clients' | 'tls'>
  /** Last known metrics of workers that have ended. */
  #gone: MetricsSnapshot[] = []
  #phase: 'starting' | 'serving' | 'draining' = 'starting'

  /** @throws when a required file or directory cannot be opened; the message names it */
  constructor(startup: StartupConfiguration) {
    const { settings, version, clients, tls, log } = startup
    this.#startup = startup
    this.#own = createMetrics({ version })
    this.metrics = { contentType: this.#own.contentType, expose: () => this.#expose() }
    this.trail = openTrail({ ...trailOptions(startup, this.#own), threads: settings.workers + SPARE_SEATS })
    const watch = new StoreWatch({ log, metrics: this.#own, trail: this.trail })
    this.#state = new PrimaryState(startup, watch)
    this.#inForce = { settings, clients: clients?.value, tls: tls?.texts }
    this.#pool = new WorkerPool({
      size: settings.workers,
      script: SCRIPT,
      eventLog: this.#state.eventLog,
      begin: (seat, name) => this.#begin(seat, name),
      onEnd: (ended) => this.#settle(ended),
    })
    for (const warning of tls?.material.warnings ?? []) log.warn({ warning }, 'tls')
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
    const writable = this.trail.recheck() && this.#state.eventLog.allFit
    return writable ? this.#state.whyUnready : 'the audit trail cannot be written'
  }

  degraded(): string | undefined {
    return this.#state.whyDegraded
  }

  async drain({ reason, graceMs, hurry }: Stop): Promise<void> {
    const { log, settings } = this.#startup
    this.#phase = 'draining'
    log.info({ workers: this.#pool.serving, reason, graceMs }, 'draining')
    void hurry.then(() => this.#post({ type: 'hurry' }))
    const message: WorkerCommand = { type: 'drain', reason, graceMs }
    const stopped = this.#pool.stop(message, graceMs + settings.timeouts.drainMs + LAST_MOMENTS_MS)
    // Until the grace ends, edits still take effect.
    await passed(graceMs, hurry)
    this.#unwatch()
    await stopped
    this.#close(reason)
  }

  async abandon(reason: string): Promise<void> {
    this.#unwatch()
    await this.#pool.stop({ type: 'hurry' } satisfies WorkerCommand, 0)
    this.#close(reason)
  }

  #close(reason: string): void {
    this.#state.close()
    this.trail.close(reason)
  }

  #post(message: WorkerCommand): void {
    this.#pool.post(message)
  }

  #watch(): void {
    const { tls } = this.#startup
    const { settings } = this.#inForce
    const telling = { ...this.#startup, metrics: this.#own, trail: this.trail, clock: Date.now }
    const enforce = {
      limits: this.#state.replaceTable.bind(this.#state),
      clients: (table: NonNullable<WorkerConfiguration['clients']>) => {
        Object.assign(this.#inForce, { clients: table })
        this.#post({ type: 'clients', table })
      },
    }
    const trust = { trust: tls?.material.trust }
    this.#watching.push(...watchFiles({ ...telling, startup: this.#startup, tls: trust, enforce }))
    if (settings.tls === undefined || tls === undefined) return
    const watching = watchTls(telling, {
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

  #begin(seat: number, name: string): WorkerConfiguration {
    return {
      name,
      seat,
      version: this.#startup.version,
      ...this.#inForce,
      ...this.#state.copy(),
      nonceSecret: this.#nonceSecret,
      trail: this.trail.handle,
    }
  }

  #settle({ name, threadId, why, lastAnswer, expected }: Ended<MetricsSnapshot>): void {
    const recovered = this.trail.settleDeadWorker(threadId)
    if (!expected) this.#startup.log.error({ worker: name, cause: why, recovered }, 'a worker has died')
    // Counters must not decrease, so those of ended workers are kept.
    if (lastAnswer !== undefined) this.#gone = [countedBy([...this.#gone, lastAnswer])]
  }

  async #expose(): Promise<string> {
    const own = await this.#own.snapshot()
    const workers = await this.#pool.ask()
    return exposeMerged([own, ...workers, ...this.#gone])
  }
}

/**
 * The port that all workers will listen on. It must be free: otherwise two gateways would silently share connections.
 *
 * @throws CannotListen
 */
async function portOf(host: string, port: number): Promise<number> {
  const trial = createServer()
  const free = await listen(trial, { host, port })
  trial.close()
  return free
}
