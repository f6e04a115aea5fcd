import { randomBytes } from 'node:crypto'
import { ConfigInForce } from '../admin/config-in-force.ts'
import { createMetrics, type Metrics } from '../admin/metrics.ts'
import { openTrail } from '../audit/open-trail.ts'
import type { Trail } from '../audit/trail.ts'
import type { KeySet } from '../auth/keys/jwks.ts'
import { ProofVerifier } from '../auth/possession/dpop.ts'
import { Nonces } from '../auth/possession/nonces.ts'
import { keysOf, trustedIssuers } from '../auth/tokens/issuers.ts'
import { TokenVerifier } from '../auth/tokens/verifier.ts'
import { NO_CLIENTS } from '../config/clients-file.ts'
import type { Gateway, Load } from '../gateway.ts'
import { BodyRoom } from '../http/bodies/body-room.ts'
import { loopMark } from '../http/rules/loop-mark.ts'
import { PathTable } from '../http/rules/path-table.ts'
import { Tunnels } from '../http/server/tunnels/tunnels.ts'
import { checkedField } from '../http/syntax/field.ts'
import { Slots } from '../http/syntax/slots.ts'
import { Journal } from '../limits/journal/limit-journal.ts'
import { countersOutsideTable } from '../limits/windows/counters.ts'
import { createUpstreams } from '../upstream/create-upstreams.ts'
import { UpstreamPermits } from '../upstream/upstream-permits.ts'
import { type Watching, watchFiles } from './config-reloads.ts'
import { journalOptions, trailOptions } from './data-files.ts'
import { gatewayIdOf, maintainState, makeSharedState, type SharedState } from './shared-state.ts'
import type { StartupConfiguration } from './startup-configuration.ts'
import { StoreWatch } from './store-watch.ts'

/** The parts that the gateway of a thread is built on; with workers, most of them are shared. */
interface Foundation {
  readonly state: SharedState
  readonly limiter: Gateway['limiter']
  readonly trail: Trail
  readonly metrics: Metrics
  /** At least 32 random bytes, the same in all threads. */
  readonly secret: Uint8Array
  readonly load: Pick<Load, 'tunnels' | 'permits'>
}

/** A gateway in one thread. */
interface Assembled {
  readonly gateway: Gateway
  readonly keys: Pick<KeySet, 'start' | 'stop'>
  readonly watching: readonly Watching[]
  readonly config: ConfigInForce
  readonly state: SharedState
  /** Watches the files of the shared state. */
  readonly watch: StoreWatch
}

/**
 * Makes a gateway that runs in one thread, and recovers the state of an earlier run: open audit pairs, counts, revocations.
 *
 * @throws when a required file or directory cannot be opened; the message names it.
 */
export function assemble(startup: StartupConfiguration): Assembled {
  const { settings, log, version } = startup
  const metrics = createMetrics({ version })
  const trail = openTrail(trailOptions(startup, metrics))
  const watch = new StoreWatch({ log, metrics, trail })
  const journal = new Journal(journalOptions(startup, watch))
  const secret = randomBytes(32)
  const state = makeSharedState(startup, { journal, watch, gatewayId: gatewayIdOf(secret), threadId: 0 })
  const { limiter } = state
  const load = {
    tunnels: new Tunnels({ steadyClock: () => performance.now(), maxTunnels: settings.maxTunnels }),
    permits: new UpstreamPermits({ max: settings.maxInFlight, threads: 1 }),
  }
  const { gateway, keys } = makeGateway(startup, { state, limiter, trail, metrics, secret, load })
  const config = new ConfigInForce(startup)
  const watching = watchFiles({
    ...gateway,
    config,
    startup,
    enforce: {
      limits: (rows) => limiter.replace(rows),
      clients: (table) => {
        gateway.clients.table = table
      },
    },
  })
  // Last, because with the first table the snapshot of the last run is removed.
  limiter.replace(startup.limits.value)
  maintainState(state, watch)
  return { gateway, keys, watching, config, state, watch }
}

/** Makes the parts that each thread has for itself. */
export function makeGateway(
  startup: StartupConfiguration,
  { state, limiter, trail, metrics, secret, load }: Foundation,
): Pick<Assembled, 'gateway' | 'keys'> {
  const { settings, log } = startup
  const { addressRate, dpop } = settings
  const { revocations, guards, throttle, member } = state
  const clock = Date.now
  const upstreamSecret =
    settings.upstreamSecret === undefined
      ? undefined
      : checkedField('X-Gateway-Secret', settings.upstreamSecret)
  const issuers = trustedIssuers(settings, {
    upstreamSecret,
    clock,
    onFault: (uri, cause) => log.warn({ uri, cause }, 'signing keys'),
  })
  const gateway: Gateway = {
    settings,
    clock,
    steadyClock: () => performance.now(),
    log,
    metrics,
    trail,
    addressRate: addressRate && countersOutsideTable(addressRate.requests, addressRate.windowMs),
    routes: new PathTable(settings.routes),
    verifier: new TokenVerifier({ issuers, revocations, clock }),
    proofs: new ProofVerifier({
      clock,
      replays: guards.proofs,
      nonces:
        dpop.nonce === 'required'
          ? new Nonces({ secret: () => member?.nonceSecret() ?? secret, clock })
          : undefined,
      publicUrls: dpop.publicUrls,
    }),
    throttle,
    revocations,
    clients: { table: startup.clients?.value ?? NO_CLIENTS },
    acceptedWebhooks: guards.webhooks,
    tls: { trust: startup.tls?.material.trust },
    limiter: member?.limits(limiter) ?? limiter,
    upstream: makeUpstream(startup, metrics),
    upstreamSecret,
    load: {
      ...load,
      inFlight: new Slots(),
      bodyRoom: new BodyRoom(),
      phase: 'serving',
      refusalLog: new Map(),
    },
    loopMark: loopMark(secret),
  }
  // Without bearer tokens no keys are needed, and there may be no server for them.
  const acceptsTokens = settings.routes.some(({ auth }) => auth.has('bearer'))
  return { gateway, keys: keysOf(acceptsTokens ? issuers : []) }
}

function makeUpstream({ settings, log }: StartupConfiguration, metrics: Metrics) {
  const { upstreams: urls, timeouts, maxInFlight } = settings
  for (const upstream of urls) metrics.upstreamHealth(upstream, true)
  return createUpstreams({
    urls,
    connectMs: timeouts.connectMs,
    headersMs: timeouts.headersMs,
    // A connection may still be closing when its exchange has ended.
    maxConnections: maxInFlight * 2,
    clock: () => performance.now(),
    onHealth: (upstream, healthy) => {
      metrics.upstreamHealth(upstream, healthy)
      log.warn({ upstream, healthy }, 'upstream health')
    },
  })
}
