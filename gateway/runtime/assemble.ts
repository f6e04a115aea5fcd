import { randomBytes } from 'node:crypto'
import { createMetrics } from '../admin/metrics.ts'
import { beginTrail } from '../audit/open-trail.ts'
import type { InheritedRequests } from '../audit/recovery/inherited-requests.ts'
import { trailOptions } from './data-files.ts'
import { GatewayInForce } from './gateway-in-force.ts'
import { type GatewayState, gatewayIdOf, maintenanceOf, makeGatewayState } from './gateway-state.ts'
import type { PassedState } from './restart/messages.ts'
import { restoreState } from './restart/passed-state.ts'
import { prepareSeals, sealTrail } from './seal-trail.ts'
import { saveMemory } from './startup/save-memory.ts'
import type { StartupConfiguration } from './startup-configuration.ts'
import { StoreWatch } from './store-watch.ts'

/** The parts of a gateway. */
interface Assembled {
  readonly inForce: GatewayInForce
  readonly state: GatewayState
  /** Watches the files of that state. */
  readonly watch: StoreWatch
  /** Requests that the process before has in flight; undefined: there was none. */
  readonly inherited: InheritedRequests | undefined
}

/**
 * Makes a gateway, and recovers the state of an earlier run: open audit pairs, counts, revocations.
 *
 * @param passed of the process that this one takes over from: the trail is then continued
 * @throws when a required file or directory cannot be opened; the message names it.
 */
export function assemble(startup: StartupConfiguration, passed?: PassedState): Assembled {
  const { settings, log, version } = startup
  saveMemory(settings.memoryProfile)
  const metrics = createMetrics({ version })
  const seals = prepareSeals(startup)
  const options = { ...trailOptions(startup, metrics), isSealed: seals !== undefined }
  const { trail, inherited } = beginTrail(options, passed !== undefined)
  metrics.gateway_audit_records_pending.read(() => trail.uncommittedRecords)
  metrics.gateway_audit_writable.read(() => (trail.writable ? 1 : 0))
  sealTrail(startup, seals, { trail, metrics })
  const watch = new StoreWatch({ log, metrics, trail })
  const secret = randomBytes(32)
  const state = makeGatewayState(startup, { watch, gatewayId: gatewayIdOf(secret) })
  const inForce = new GatewayInForce(startup, { state, trail, metrics, secret })
  // Last, because with the first table the snapshot of the last run is removed.
  state.limiter.replace(startup.limits.value)
  for (const maintain of maintenanceOf(state, watch)) maintain()
  if (passed !== undefined) {
    restoreState(passed, state)
    inForce.restoreKeys(passed.keys)
  }
  return { inForce, state, watch, inherited }
}
