import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { Metrics } from '../admin/metrics.ts'
import type { Trail } from '../audit/trail.ts'
import { Decider } from '../auth/decisions/decider.ts'
import type { KeySet, LastGoodKeys } from '../auth/keys/jwks.ts'
import { Nonces, ProofVerifier } from '../auth/possession/dpop.ts'
import { ClientKeys } from '../auth/signatures/client-keys.ts'
import { MessageSigner } from '../auth/signatures/message-signer.ts'
import { trustedIssuers, usesKeys } from '../auth/tokens/issuers.ts'
import { TokenVerifier } from '../auth/tokens/verifier.ts'
import { NO_CLIENTS } from '../config/clients/clients-file.ts'
import { OperationRules } from '../config/openapi/compiled-operations.ts'
import { placesOf } from '../config/openapi/documented-routes.ts'
import { idempotencyKeysOf, readMaskKey } from '../config/secret-line.ts'
import type { Settings } from '../config/settings.ts'
import { BodyRoom } from '../edge/bodies/body-room.ts'
import { Tunnels } from '../edge/http1/tunnels.ts'
import { FairPermits } from '../edge/rules/fair-share.ts'
import { firstSegment } from '../edge/rules/policy/path-mask.ts'
import { checkedField } from '../edge/syntax/field.ts'
import { Slots } from '../edge/syntax/slots.ts'
import type { Configured, Gateway } from '../gateway.ts'
import { secretsOf } from '../idempotency/key-secret.ts'
import { countersOutsideTable } from '../limits/windows/counters.ts'
import { existingOrNew } from '../storage/secret-file.ts'
import { ClientOcsp } from '../tls/clients/client-ocsp.ts'
import { DROP_REASONS } from '../tracing/span-exporter.ts'
import { Tracer } from '../tracing/tracer.ts'
import type { GroupObserver } from '../upstream/upstream-groups.ts'
import { changeState, type GatewayState, gatewayIdOf } from './gateway-state.ts'
import { RepeatedFault } from './repeated-fault.ts'
import type { StartupConfiguration } from './startup/read-configuration.ts'
import { exposeUpstreams, makeUpstreams, observeUpstreams, servedRoutes } from './upstream-parts.ts'

interface Foundation {
  readonly state: GatewayState
  readonly trail: Trail
  readonly metrics: Metrics
  readonly secret: Uint8Array
}

/** Parts that no edit of the configuration changes. */
type Fixed = Omit<Gateway, keyof Configured>

/** An edit of the configuration makes another `Gateway`. */
export class GatewayInForce {
  readonly #fixed: Fixed
  readonly #foundation: Foundation
  readonly #observer: GroupObserver
  readonly #nameSession: ((session: string) => string) | undefined
  #gateway: Gateway
  #fetching = false

  constructor(startup: StartupConfiguration, foundation: Foundation) {
    this.#fixed = fixedParts(startup, foundation)
    this.#foundation = foundation
    this.#nameSession = nameSessions(startup)
    this.#observer = observeUpstreams(this.#fixed, () => this.#gateway.upstreams)
    this.#gateway = { ...this.#fixed, ...this.#configure(startup.settings, undefined) }
    this.#gateway.upstreams.start()
    this.#exposeState()
  }

  get gateway(): Gateway {
    return this.#gateway
  }

  startKeys(): void {
    this.#fetching = true
    this.#fetchKeys()
  }

  lastGoodKeys(): LastGoodKeys[] {
    return this.#keySets().flatMap((keys) => (/^https?:/.test(keys.uri) ? (keys.lastGood() ?? []) : []))
  }

  restoreKeys(kept: readonly LastGoodKeys[]): void {
    for (const keys of this.#keySets()) {
      const same = kept.find(({ uri }) => uri === keys.uri)
      if (same !== undefined) keys.restore(same)
    }
  }

  stopKeys(): void {
    this.#fetching = false
    for (const keys of this.#keySets()) keys.stop()
  }

  #keySets(): readonly KeySet[] {
    const { verifier, signers } = this.#gateway
    return [...verifier.issuers, ...signers.all].map(({ keys }) => keys)
  }

  /** When it throws, nothing has changed. */
  replace(settings: Settings): void {
    const before = this.#gateway
    const next = { ...this.#fixed, ...this.#configure(settings, before) }
    this.#gateway = next
    this.#settleLoad(next)
    before.upstreams.handOver(next.upstreams)
    const keySets = new Set(next.verifier.issuers.map(({ keys }) => keys))
    for (const { keys } of before.verifier.issuers) if (!keySets.has(keys)) keys.retire()
    if (this.#fetching) this.#fetchKeys()
  }

  #configure(settings: Settings, before: Gateway | undefined): Configured {
    const { addressRate, authThrottle, upstreamSecret, signing, signingKeys } = settings
    const { state } = this.#foundation
    const secret = upstreamSecret === undefined ? undefined : checkedField('X-Gateway-Secret', upstreamSecret)
    const upstreams = makeUpstreams(
      { settings, upstreamSecret: secret, observer: this.#observer, metrics: this.#foundation.metrics },
      before?.upstreams,
    )
    const masking = settings.routes.filter(({ mask }) => mask).map(({ path }) => path)
    const maskKey = masking.length > 0 ? readMaskKey(settings) : undefined
    for (const { path, signsResponses } of settings.routes)
      if (signsResponses) this.#foundation.metrics.gateway_responses_unsigned_total.begin(path)
    const signer = signing && new MessageSigner(signing, signingKeys)
    return {
      settings,
      // An edit keeps the counts.
      addressRate:
        addressRate &&
        (before?.addressRate ?? countersOutsideTable(addressRate.requests, addressRate.windowMs)),
      routes: servedRoutes(settings, upstreams, { maskKey, jwks: signer?.jwks }),
      maskUnrouted: maskKey === undefined ? undefined : (path) => firstSegment(path, masking),
      requestRules: this.#requestRules(settings, before),
      verifier: this.#verifier(settings, before),
      proofs: this.#proofs(settings, before),
      throttle: authThrottle.failures === 0 ? undefined : state.throttle,
      upstreams,
      deciders: this.#deciders(settings, before),
      idempotency: this.#keyKeeper(settings),
      signer,
      upstreamSecret: secret,
    }
  }

  /** Rows with the same terms share a decider, and an edit keeps it with its cache. */
  #deciders({ routes }: Settings, before: Gateway | undefined): Gateway['deciders'] {
    const { log, metrics } = this.#fixed
    const deciders = new Map<string, Decider>()
    for (const { decision, path } of routes) {
      if (decision === undefined) continue
      metrics.gateway_decisions_total.begin(path, 'failed')
      const { key, url } = decision
      const onFault = (cause: string) => log.warn({ url, cause }, 'a decider gives no decision')
      deciders.set(key, deciders.get(key) ?? before?.deciders.get(key) ?? new Decider(decision, { onFault }))
    }
    return deciders
  }

  /** Opens the key table for the first row that needs it. It stays open for the responses of removed rows. */
  #keyKeeper(settings: Settings): Gateway['idempotency'] {
    const { state, metrics } = this.#foundation
    const { keys, member } = state
    const keyed = settings.routes.filter(({ idempotency }) => idempotency !== undefined)
    for (const { path } of keyed) metrics.gateway_idempotency_total.begin(path, 'unknown')
    if (keyed.length === 0) return keys.table
    const secrets = secretsOf(idempotencyKeysOf(settings))
    if (member === undefined) return keys.open(secrets)
    if (keyed.some(({ idempotency }) => idempotency?.onStoreFailure === 'local')) keys.open(secrets)
    return member.idempotency(secrets, () => keys.table)
  }

  #requestRules({ openapi, routes }: Settings, before: Gateway | undefined): Gateway['requestRules'] {
    if (openapi?.document === undefined) return new Map()
    const places = placesOf(routes.map(({ operations }) => operations))
    const known = before?.settings
    const isSame =
      known?.openapi?.document !== undefined &&
      known.openapi.hash === openapi.hash &&
      isDeepStrictEqual(placesOf(known.routes.map(({ operations }) => operations)), places)
    return before !== undefined && isSame ? before.requestRules : new OperationRules(openapi.document, places)
  }

  #verifier(settings: Settings, before: Gateway | undefined): TokenVerifier {
    const { clock, log, metrics, revocations } = this.#fixed
    const known = before !== undefined && acceptsTokens(before.settings) ? before.verifier : undefined
    const issuers = trustedIssuers(
      settings,
      {
        clock,
        onFault: (uri, cause) => log.warn({ uri, cause }, 'there is a fault with an issuer'),
        nameSession: this.#nameSession,
        countIntrospection: (issuer, outcome) =>
          metrics.gateway_introspection_requests_total.count(issuer, outcome),
        sources: () => ({ ...this.#gateway.settings, upstreamSecret: this.#gateway.upstreamSecret }),
      },
      known?.issuers,
    )
    const isSame =
      known?.issuers.length === issuers.length && issuers.every((one) => known.issuers.includes(one))
    return isSame ? known : new TokenVerifier({ issuers, revocations, clock }, known)
  }

  #proofs({ dpop }: Settings, before: Gateway | undefined): ProofVerifier {
    if (isDeepStrictEqual(dpop, before?.settings.dpop) && before !== undefined) return before.proofs
    const { clock } = this.#fixed
    const { state, secret } = this.#foundation
    const nonces =
      dpop.nonce === 'required' ? new Nonces(() => state.member?.nonceSecret() ?? secret, clock) : undefined
    return new ProofVerifier({ clock, replays: state.guards.proofs, nonces, publicUrls: dpop.publicUrls })
  }

  #settleLoad({ settings, load, log, steadyClock, addressRate: counts }: Gateway): void {
    const { addressRate } = settings
    log.level = settings.logLevel
    load.permits.bound(settings.maxInFlight)
    load.tunnels.bound(settings.maxTunnels)
    changeState(this.#foundation.state, settings)
    if (addressRate !== undefined) counts?.limitTo(addressRate.requests, addressRate.windowMs, steadyClock())
  }

  #exposeState(): void {
    const { metrics, load } = this.#fixed
    metrics.gateway_http_requests_in_flight.read(() => load.inFlight.size)
    metrics.gateway_tunnels_open.read(() => load.tunnels.taken)
    exposeUpstreams(metrics, () => this.#gateway.upstreams.targets)
    metrics.gateway_issuer_keys_age_seconds.read(() => {
      const { settings, verifier } = this.#gateway
      const issuers = acceptsTokens(settings) ? verifier.issuers.filter(usesKeys) : []
      for (const { issuer, keys } of issuers)
        metrics.causes.set(`gateway_issuer_keys_age_seconds ${issuer}`, keys.fault)
      return issuers.map(({ issuer, keys }) => [issuer, keys.ageMs / 1000])
    })
  }

  /** Fetches only keys that verify something: others may have no server. */
  #fetchKeys(): void {
    const { settings, verifier, signers } = this.#gateway
    for (const issuer of verifier.issuers) {
      if (acceptsTokens(settings) && usesKeys(issuer)) issuer.keys.start()
      else issuer.keys.retire()
    }
    if (settings.routes.some(({ isSigned, auth }) => isSigned || auth.has('signature'))) signers.start()
    else signers.stop()
  }
}

function acceptsTokens({ routes }: Settings): boolean {
  return routes.some(({ auth }) => auth.has('bearer'))
}

/** Whoever has this file and the id of a session can find the records of the session. */
const SESSION_KEY_FILE = 'audit-session-key'
const SESSION_NAME_CHARS = 22

/** Names a session by the HMAC-SHA-256 of its id, which nobody can find from the name. */
function nameSessions({ settings, log }: StartupConfiguration): ((session: string) => string) | undefined {
  const file = join(settings.dataDir, SESSION_KEY_FILE)
  try {
    const key = readFileSync(existingOrNew(file), 'utf8').trim()
    if (key === '') throw new Error(`${file} is empty`)
    return (session) =>
      createHmac('sha256', key).update(session).digest('base64url').slice(0, SESSION_NAME_CHARS)
  } catch (error) {
    log.error({ cause: String(error) }, 'audit records are written without sessionId')
    return undefined
  }
}

function fixedParts(startup: StartupConfiguration, foundation: Foundation): Fixed {
  const { settings, log, clients, tls } = startup
  const steadyClock = () => performance.now()
  const { state, trail, metrics, secret } = foundation
  const signers = new ClientKeys({
    clock: Date.now,
    onFault: (client, uri, cause) =>
      log.warn({ client, uri, cause }, 'there is a fault with the signing keys of a client'),
  })
  const table = clients?.value ?? NO_CLIENTS
  signers.replace(table.signers)
  return {
    clock: Date.now,
    steadyClock,
    log,
    metrics,
    trail,
    revocations: state.revocations,
    clients: { table },
    signers,
    acceptedSignatures: state.guards.signatures,
    acceptedWebhooks: state.guards.webhooks,
    deliveries: state.guards.deliveries,
    tls: { trust: tls?.material.trust, ocsp: makeClientOcsp(startup, metrics) },
    limiter: state.member?.limits(state.limiter) ?? state.limiter,
    tracer: makeTracer(startup, { metrics, secret }),
    load: {
      tunnels: new Tunnels(settings.maxTunnels, steadyClock),
      permits: new FairPermits(settings.maxInFlight),
      inFlight: new Slots(),
      orphans: new Set(),
      bodyRoom: new BodyRoom(),
      phase: 'serving',
      refusalLog: new Map(),
    },
    loopMark: loopMark(secret),
  }
}

/** Name of this process in CDN-Loop (RFC 8586). Nobody can guess it without the secret. */
function loopMark(secret: Uint8Array): string {
  return `countersign; id=${createHmac('sha256', secret).update('CDN-Loop').digest('hex').slice(0, 16)}`
}

/** Time between two log lines with one cause, which many certificates can share. */
const OCSP_REPEAT_MS = 1000

function makeClientOcsp({ settings, log }: StartupConfiguration, metrics: Metrics): ClientOcsp | undefined {
  const mode = settings.tls?.clientOcsp ?? 'off'
  if (mode === 'off') return undefined
  const fault = new RepeatedFault(OCSP_REPEAT_MS)
  return new ClientOcsp({
    mode,
    clock: Date.now,
    onAnswer: (outcome, thumbprint, cause) => {
      metrics.gateway_client_ocsp_total.count(outcome)
      const due = outcome === 'good' ? undefined : fault.due(cause)
      if (due !== undefined)
        log.warn({ thumbprint, outcome, ...due, mode }, 'OCSP did not confirm a client certificate')
    },
  })
}

function makeTracer(
  { settings, version, log }: StartupConfiguration,
  { metrics, secret }: { readonly metrics: Metrics; readonly secret: Uint8Array },
): Tracer | undefined {
  if (settings.tracing === undefined) return undefined
  const exported = metrics.gateway_trace_spans_exported_total
  const dropped = metrics.gateway_trace_spans_dropped_total
  exported.begin()
  for (const reason of DROP_REASONS) dropped.begin(reason)
  const fault = new RepeatedFault()
  return new Tracer({
    settings: settings.tracing,
    version,
    instanceId: gatewayIdOf(secret),
    clock: Date.now,
    steadyClock: () => performance.now(),
    reports: {
      exported: (spans) => {
        exported.add(spans)
        if (fault.end()) log.info('spans are exported again')
      },
      dropped: (reason, spans) => {
        dropped.add(spans, reason)
        // The process ends before anyone reads the metric.
        if (reason === 'stopped') log.warn({ spans }, 'spans were lost at the stop')
      },
      fault: (cause) => {
        const due = fault.due(cause)
        if (due !== undefined) log.warn(due, 'spans are not exported')
      },
    },
  })
}
