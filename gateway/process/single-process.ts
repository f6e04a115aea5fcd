import { assemble } from './assemble.ts'
import { checkNow, type Watching, watchTls } from './config-reloads.ts'
import { closeParts, drain } from './drain.ts'
import { openPublicListeners, type PublicListeners } from './public-listeners.ts'
import type { ServingMode } from './serving-mode.ts'
import { maintainState, whyDegraded, whyUnready } from './shared-state.ts'
import type { StartupConfiguration } from './startup-configuration.ts'

/** How often the files of the shared state are checked. */
const MAINTAIN_MS = 1000

/** A gateway in this one thread. @throws what `assemble` throws */
export function serveAlone(startup: StartupConfiguration): ServingMode {
  const { gateway, keys, watching: watchedFiles, config, state, watch } = assemble(startup)
  const { settings, trail, metrics, load } = gateway
  const maintaining = setInterval(() => maintainState(state, watch), MAINTAIN_MS).unref()
  const reports = { ...gateway, config }
  const watching: Watching[] = [...watchedFiles]
  let open: PublicListeners | undefined
  return {
    trail,
    metrics,
    reports,
    begin: async () => {
      const { tls } = startup
      for (const warning of tls?.material.warnings ?? []) startup.log.warn({ warning }, 'tls')
      open = await openPublicListeners(gateway, { material: tls?.material })
      if (settings.tls !== undefined && tls !== undefined) {
        const clients = () => gateway.clients.table
        watching.push(
          watchTls(reports, { settings: settings.tls, loaded: tls, enforce: open.enforce, clients }),
        )
      }
      keys.start()
      return open
    },
    notReady: () => {
      if (open === undefined) return 'starting'
      if (load.phase !== 'serving') return 'draining'
      return trail.recheck() ? whyUnready(state, settings) : 'the audit trail cannot be written'
    },
    degraded: () => whyDegraded(state),
    reload: () => checkNow(watching),
    drain: async (stop) => {
      await drain(gateway, stop, {
        listeners: open?.listeners ?? [],
        graceOver: () => {
          for (const each of watching) each.stop()
          clearInterval(maintaining)
          keys.stop()
        },
      })
      state.member?.close()
    },
    abandon: async (reason) => {
      await closeParts(gateway, reason)
      state.member?.close()
    },
  }
}
