import { hash } from 'node:crypto'
import type { ClientTable } from '../config/clients/clients-file.ts'
import { describeFault, type Fault } from '../config/faults.ts'
import { sortedKeys } from '../config/json/json-path.ts'
import { fingerprint } from '../config/secret-line.ts'
import type { Settings } from '../config/settings.ts'
import { plain, shownSettings } from '../config/shown-settings.ts'
import { type Limits, writtenLimits } from '../limits/table/limit-table.ts'

/** A part that is read again when its files change. Tokens are never shown. */
export type ConfigPart = 'gateway' | 'limits' | 'clients' | 'certificates' | 'admin tokens'

export interface PartInForce {
  readonly file: string
  /** SHA-256 of `settings` and `rows`, to compare gateways. */
  readonly hash: string
  readonly sinceMs: number
  readonly settings?: object
  /** Routes, limits, clients, the certificate, or the admin token's fingerprint. */
  readonly rows: readonly object[]
  readonly lastReload: LastReload | undefined
}

interface LastReload {
  readonly atMs: number
  readonly result: 'success' | 'failure'
  readonly changed: boolean
  readonly faults: readonly string[]
  /** Changed keys that need a restart. */
  readonly needsRestart: readonly string[]
}

export interface ConfigReport {
  readonly version: string
  readonly hash: string
  readonly parts: Readonly<Partial<Record<ConfigPart, PartInForce>>>
}

export interface ReloadResult {
  readonly file: string
  /** It is also `failure` while an earlier fault remains. */
  readonly result: 'success' | 'failure' | 'unchanged'
  readonly faults: readonly string[]
  readonly needsRestart: readonly string[]
}

interface Read {
  readonly version: string
  readonly settings: Settings
  readonly limits: { readonly value: Limits }
  readonly clients: { readonly value: ClientTable } | undefined
  readonly tls: { readonly material: { readonly summary: object } } | undefined
  readonly adminToken?: { readonly value: string } | undefined
}

/** The configuration in force and the result of each file's last edit, without secrets. */
export class ConfigInForce {
  readonly #version: string
  readonly #clock: () => number
  #parts: Readonly<Partial<Record<ConfigPart, PartInForce>>> = {}
  #report: ConfigReport | undefined

  constructor({ version, settings, limits, clients, tls, adminToken }: Read, clock: () => number = Date.now) {
    this.#version = version
    this.#clock = clock
    this.#putSettings(settings, undefined)
    this.#put('limits', settings.limitsFile, { rows: plain(writtenLimits(limits.value)) })
    if (settings.clientsFile !== undefined && clients !== undefined)
      this.#put('clients', settings.clientsFile, { rows: clients.value.rows })
    if (settings.tls !== undefined && tls !== undefined)
      this.#put('certificates', settings.tls.certFile, { rows: [tls.material.summary] })
    if (settings.adminTokenFile !== undefined && adminToken !== undefined)
      this.#put('admin tokens', settings.adminTokenFile, { rows: [fingerprint(adminToken.value)] })
  }

  /** @param rows as the audit trail has them */
  replaced(part: ConfigPart, rows: readonly object[], changed: boolean): void {
    const before = this.#parts[part]
    if (before === undefined) return
    const lastReload = this.#success(changed)
    if (changed) this.#put(part, before.file, { rows: plain(rows) }, lastReload)
    else this.#set(part, { ...before, lastReload })
  }

  /** Notes an edit of gateway.json: what it changed at once, and what waits for a restart. */
  replacedSettings(
    settings: Settings,
    { changed, needsRestart }: Pick<LastReload, 'changed' | 'needsRestart'>,
  ): void {
    const before = this.#parts.gateway
    const lastReload = this.#success(changed, needsRestart)
    if (changed || before === undefined) this.#putSettings(settings, lastReload)
    else this.#set('gateway', { ...before, lastReload })
  }

  clientsRead(file: string, { rows }: Pick<ClientTable, 'rows'>): void {
    this.#put('clients', file, { rows })
  }

  failed(part: ConfigPart, faults: readonly Fault[]): void {
    const before = this.#parts[part]
    if (before === undefined) return
    const told = { changed: false, faults: faults.map(describeFault), needsRestart: [] }
    this.#set(part, { ...before, lastReload: { atMs: this.#clock(), result: 'failure', ...told } })
  }

  report(): ConfigReport {
    this.#report ??= { version: this.#version, hash: this.#hash(), parts: this.#parts }
    return this.#report
  }

  async reloadedBy(reload: () => Promise<void>): Promise<Partial<Record<ConfigPart, ReloadResult>>> {
    const before = this.#parts
    await reload()
    const results = Object.entries(this.#parts).map(([name, { file, lastReload }]) => {
      const isNew = lastReload !== before[name as ConfigPart]?.lastReload
      const failed = lastReload?.result === 'failure'
      const result = failed ? 'failure' : isNew && lastReload?.changed ? 'success' : 'unchanged'
      const { faults = [], needsRestart = [] } = lastReload ?? {}
      return [name, { file, result, faults, needsRestart }]
    })
    return Object.fromEntries(results)
  }

  #success(changed: boolean, needsRestart: readonly string[] = []): LastReload {
    return { atMs: this.#clock(), result: 'success', changed, faults: [], needsRestart }
  }

  #hash(): string {
    const hashes = Object.entries(this.#parts).map(([part, { hash: own }]) => `${part} ${own}`)
    // Sorted: the order in which parts came must not change the hash.
    return hash('sha256', hashes.sort().join())
  }

  #putSettings(settings: Settings, lastReload: LastReload | undefined): void {
    const content = { settings: shownSettings(settings), rows: plain(settings.routes) }
    this.#put('gateway', settings.configFile, content, lastReload)
  }

  #put(
    part: ConfigPart,
    file: string,
    content: Pick<PartInForce, 'settings' | 'rows'>,
    lastReload?: LastReload,
  ): void {
    this.#set(part, {
      file,
      hash: hash('sha256', JSON.stringify(content, sortedKeys)),
      sinceMs: this.#clock(),
      ...content,
      lastReload,
    })
  }

  #set(part: ConfigPart, inForce: PartInForce): void {
    this.#parts = { ...this.#parts, [part]: inForce }
    this.#report = undefined
  }
}
