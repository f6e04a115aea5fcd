import { ConfigInForce } from '../admin/config-in-force.ts'
import { assemble } from './assemble.ts'
import { watchFiles, watchTls } from './config-reloads.ts'
import { closeParts, drain } from './drain.ts'
import { openPublicListeners, type PublicListeners } from './public-listeners.ts'
import { checkNow, type Watching } from './reload/reload-reports.ts'
import type { ServingMode } from './serving-mode.ts'
import { maintainState, whyDegraded, whyUnready } from './shared-state.ts'
import type { StartupConfiguration } from './startup-configuration.ts'

/** How often the files of the shared state are checked. */
const MAINTAIN_MS = 1000

/** A gateway in this one thread. @throws what `assemble` throws */
export function serveAlone(startup: StartupConfiguration): ServingMode {
  const { inForce, state, watch } = assemble(startup)
  const { trail, metrics, load, clients, tls: trust } = inForce.gateway
  const maintaining = setInterval(() => maintainState(state, watch), MAINTAIN_MS).unref()
  let open: PublicListeners | undefined
  const enforce = {
    limits: state.limiter.replace.bind(state.limiter),
    clients: (table: typeof clients.table) => {
      clients.table = table
    },
    settings: (settings: StartupConfiguration['settings']) => {
      inForce.replace(settings)
      open?.boundClients()
    },
  }
  const reports = { ...inForce.gateway, config: new ConfigInForce(startup) }
  const watching: Watching[] = watchFiles({ ...reports, startup, tls: trust, enforce })
  const notReady = () => {
    if (open === undefined) return 'starting'
    if (load.phase !== 'serving') return 'draining'
    return trail.recheck() ? whyUnready(state, startup.settings) : 'the audit trail cannot be written'
  }
  metrics.state({
    isReady: () => notReady() === undefined,
    isTrailWritable: () => trail.writable,
    workers: () => 1,
  })
  return {
    trail,
    metrics,
    reports,
    get settings() {
      return inForce.gateway.settings
    },
    begin: async () => {
      const { settings, tls } = startup
      for (const warning of tls?.material.warnings ?? []) startup.log.warn({ warning }, 'tls')
      open = await openPublicListeners(inForce, { material: tls?.material })
      if (settings.tls !== undefined && tls !== undefined) {
        const options = {
          settings: settings.tls,
          loaded: tls,
          enforce: open.enforce,
          clients: () => clients.table,
        }
        watching.push(watchTls(reports, options))
      }
      inForce.startKeys()
      return open
    },
    notReady,
    degraded: () => whyDegraded(state),
    reload: () => checkNow(watching),
    drain: async (stop) => {
      await drain(inForce, stop, {
        listeners: open?.listeners ?? [],
        graceOver: () => {
          for (const each of watching) each.stop()
          clearInterval(maintaining)
          inForce.stopKeys()
        },
      })
      state.member?.close()
    },
    abandon: async (reason) => {
      await closeParts(inForce, reason)
      state.member?.close()
    },
  }
}
