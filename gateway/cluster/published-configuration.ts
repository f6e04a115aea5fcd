import type { ClientTable } from '../config/clients-file.ts'
import type { Settings } from '../config/settings.ts'
import { watchFiles, watchTls } from '../process/reload/config-reloads.ts'
import { checkNow, type Reports, type Watching } from '../process/reload/reload-reports.ts'
import type { StartupConfiguration } from '../process/startup-configuration.ts'
import type { TlsMaterial, TlsTexts } from '../tls/listener/tls-context.ts'
import type { PrimaryState } from './primary-state.ts'
import type { WorkerCommand, WorkerConfiguration } from './worker-messages.ts'

type InForce = Pick<WorkerConfiguration, 'settings' | 'clients' | 'tls' | 'staple'>

interface Publishing {
  readonly startup: StartupConfiguration
  readonly state: Pick<PrimaryState, 'replaceTable' | 'changeSettings'>
  /** To all workers. */
  readonly post: (command: WorkerCommand) => void
}

/** The configuration of the workers. The main thread reads the files, and publishes what changes. */
export class PublishedConfiguration {
  readonly #publishing: Publishing
  readonly #watching: Watching[] = []
  #inForce: InForce

  constructor(publishing: Publishing) {
    const { settings, clients, tls } = publishing.startup
    this.#publishing = publishing
    this.#inForce = { settings, clients: clients?.value, tls: tls?.texts, staple: undefined }
  }

  /** For a new worker. */
  get inForce(): InForce {
    return this.#inForce
  }

  /** Watches the files. @param settings with the ports that all workers listen on */
  watch(settings: Settings, reports: Reports): void {
    const { startup, state } = this.#publishing
    const { tls } = startup
    this.#inForce = { ...this.#inForce, settings }
    const enforce = {
      limits: state.replaceTable.bind(state),
      clients: (table: ClientTable) => this.#publish({ clients: table }, { type: 'clients', table }),
      settings: (edited: Settings) => this.#changeSettings(edited),
    }
    const trust = { trust: tls?.material.trust }
    this.#watching.push(...watchFiles({ ...reports, startup, tls: trust, enforce }))
    if (settings.tls === undefined || tls === undefined) return
    const watched = {
      settings: settings.tls,
      loaded: tls,
      staple: (staple: InForce['staple']) => this.#publish({ staple }, { type: 'staple', staple }),
      clients: () => this.#inForce.clients,
      enforce: (material: TlsMaterial, texts: TlsTexts) => {
        trust.trust = material.trust
        this.#publish({ tls: texts }, { type: 'tls', texts })
      },
    }
    this.#watching.push(...watchTls(reports, watched))
  }

  /** A file of the main thread alone. */
  add(file: Watching): void {
    this.#watching.push(file)
  }

  /** Reads the files now; resolves when the results have been reported. */
  check(): Promise<void> {
    return checkNow(this.#watching)
  }

  stop(): void {
    for (const watching of this.#watching) watching.stop()
  }

  #changeSettings(edited: Settings): void {
    const { startup, state } = this.#publishing
    const { port, tls } = this.#inForce.settings
    const settings = { ...edited, port, tls }
    startup.log.level = settings.logLevel
    state.changeSettings(settings)
    this.#publish({ settings }, { type: 'settings', settings })
  }

  #publish(changed: Partial<InForce>, command: WorkerCommand): void {
    this.#inForce = { ...this.#inForce, ...changed }
    this.#publishing.post(command)
  }
}
