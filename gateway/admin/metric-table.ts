import { LATENCY_BOUNDS_MS } from '../store/store-counts.ts'
import { Counter, Gauge, Histogram, type Labels } from './metric-families.ts'

const REQUEST_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
const ROUND_TRIP_SECONDS = LATENCY_BOUNDS_MS.map((ms) => ms / 1000)
const LOOP_LAG_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]

/** Names and labels are a public contract. */
const METRICS = {
  gateway_audit_foreign_bytes_total: counter(
    'Bytes that others added to the audit trail or removed from it; a change that keeps the size counts as 1.',
  ),
  gateway_audit_last_seal_timestamp_seconds: gauge(
    'Unix time of the last checkpoint of this run; 0: none yet.',
  ),
  gateway_audit_records_pending: gauge(
    'Records not yet in the file or, with `audit.durability` `synced`, not yet on the disk.',
  ),
  gateway_audit_records_total: counter('Records handed to the audit trail.', 'type'),
  gateway_audit_seal_faults_total: counter('How often sealing failed; it is tried again.'),
  gateway_audit_seal_gaps_total: counter('How often sealed records were missing from the audit trail.'),
  gateway_audit_seal_lag_seconds: gauge(
    'Greatest possible age of the oldest unsealed record; 1 to 2 s are normal under load. For records of an earlier run it counts from the start of this run.',
  ),
  gateway_audit_ship_lag_seconds: gauge(
    'How long ago the oldest unshipped segment was closed; 0: all are shipped.',
  ),
  gateway_audit_tree_size: gauge('Records that the last checkpoint covers.'),
  gateway_audit_unsealed_records: gauge('Records that wait for the next checkpoint.'),
  gateway_audit_unshipped_segments: gauge('Closed segments of the audit trail that are not shipped yet.'),
  gateway_audit_stamp_failures_total: counter('Requests for a time stamp that failed.'),
  gateway_audit_stamp_interval_seconds: gauge('Value of audit.stamps.every.'),
  gateway_audit_stamp_lag_seconds: gauge(
    'Age of the oldest checkpoint that waits for a time stamp; 0: none waits.',
  ),
  gateway_audit_unstamped_records: gauge('Sealed records after the newest checkpoint that has a time stamp.'),
  gateway_audit_unwitnessed_records: gauge(
    'Sealed records after the newest checkpoint that enough witnesses have signed.',
  ),
  gateway_audit_witness_failures_total: counter(
    'Requests to a witness that brought no signature; conflict: the witness has seen another log.',
    'witness',
    'failure',
  ),
  gateway_audit_witness_interval_seconds: gauge('Value of audit.witnesses.every.'),
  gateway_audit_witness_lag_seconds: gauge(
    'Age of the oldest checkpoint that too few witnesses have signed; 0: there is none.',
  ),
  gateway_audit_writable: gauge('0 while the trail cannot be written and requests get 503, else 1.'),
  gateway_audit_write_errors_total: counter('Writes to the audit trail that failed.'),
  gateway_audit_segments_total: counter(
    'Closed segments of the audit trail that were compressed, shipped or pruned.',
    'task',
  ),
  gateway_audit_segment_errors_total: counter(
    'Closed segments of the audit trail that could not be compressed, shipped or pruned; tried again later.',
    'task',
  ),
  gateway_auth_decisions_total: counter('Credentials checked.', 'method', 'outcome'),
  gateway_responses_unsigned_total: counter(
    "Responses sent unsigned although their route signs responses: the body is too long, or `signing` does not fit the client's profile.",
    'route',
  ),
  gateway_shadow_refusals_total: counter(
    'Requests that a route let through only because it is in shadow mode.',
    'route',
    'code',
  ),
  gateway_build_info: gauge('Always 1; the labels say what runs.', 'version', 'node'),
  gateway_client_ocsp_total: counter(
    'OCSP requests about client certificates; no_responder: the certificate names no responder.',
    'outcome',
  ),
  gateway_config_last_reload_successful: gauge(
    '1 when the present file is in force, except for keys that need a restart; 0 when its last edit was refused.',
    'file',
  ),
  gateway_config_reloads_total: counter('Times that a configuration file was read.', 'file', 'result'),
  gateway_event_loop_active_seconds_total: counter(
    'Time in which the event loop was busy; a gateway is at its limit when this grows by 1 s each second.',
  ),
  gateway_event_loop_lag_seconds: histogram(
    'How late a timer of 250 ms fires; requests wait about as long.',
    LOOP_LAG_SECONDS,
  ),
  gateway_grpc_calls_total: counter('gRPC calls that ended.', 'route', 'code'),
  gateway_http_request_duration_seconds: histogram(
    'Time from the request to the last byte of its response.',
    REQUEST_SECONDS,
    'route',
    'method',
  ),
  gateway_http_requests_in_flight: gauge('Open requests.'),
  gateway_http_requests_total: counter('Requests that ended.', 'route', 'method', 'status'),
  gateway_decisions_total: counter(
    'Requests of rows with `decision`, by the answer of the decider; breaker_open and too_many: it was not asked.',
    'route',
    'outcome',
  ),
  gateway_idempotency_keys: gauge('Idempotency keys in the data directory, at most 1,000,000.'),
  gateway_idempotency_bytes: gauge(
    'Bytes of idempotency keys and responses in the data directory; above 1 GiB, only the statuses of further responses are kept.',
  ),
  gateway_idempotency_total: counter(
    'Requests of rows with `idempotency`, by the outcome of their key.',
    'route',
    'outcome',
  ),
  gateway_introspection_requests_total: counter(
    'Introspections of tokens; breaker_open and too_many: the issuer was not asked.',
    'issuer',
    'outcome',
  ),
  gateway_issuer_keys_age_seconds: gauge(
    "Time since the issuer's keys were last fetched (every 5 minutes); +Inf: never.",
    'issuer',
  ),
  gateway_rate_limit_decisions_total: counter(
    'Requests, by what a limit decided. A limit with several windows counts a refusal only for the windows that refuse.',
    'limit',
    'decision',
  ),
  gateway_ready: gauge('1 when /readyz returns 200.'),
  gateway_refusals_total: counter('Refusals: responses by the gateway instead of the upstream.', 'code'),
  gateway_requests_abandoned_total: counter(
    'Requests, roughly counted, that were not handled, because their client left or reset them.',
  ),
  gateway_store_breaker_open: gauge(
    '1 while the shared store is away; limits then follow their onStoreFailure.',
  ),
  gateway_store_outages_total: counter('How often the shared store went away.'),
  gateway_store_round_trip_duration_seconds: histogram(
    'Time from a command to the shared store to its reply; late replies do not count.',
    ROUND_TRIP_SECONDS,
  ),
  gateway_store_round_trips_total: counter('Commands that the shared store replied to in time.'),
  gateway_store_script_reloads_total: counter(
    'How often the gateway sent a script that the shared store lacked, as after restarts of the store.',
  ),
  gateway_store_takes_total: counter(
    'Decisions on limits asked of the shared store; undecided: it was away or late, and onStoreFailure decided.',
    'outcome',
  ),
  gateway_store_unsent_sessions: gauge('Ended sessions not yet written to the shared store.'),
  gateway_store_writable: gauge(
    '0 while the store cannot be written, else 1. shared: the store of several gateways; the others are in the data directory.',
    'store',
  ),
  gateway_store_write_errors_total: counter(
    'Errors of files in the data directory, and of connections to the shared store.',
    'store',
  ),
  gateway_tls_certificate_expiry_timestamp_seconds: gauge(
    'Unix time at which the certificate of the HTTPS listener expires.',
  ),
  gateway_tls_client_trust_expiry_timestamp_seconds: gauge(
    "Unix time of the next expiry: of a client authority (authorities), or of an authority's newest revocation list (lists). Then that authority's clients are refused.",
    'what',
  ),
  gateway_trace_spans_dropped_total: counter(
    'Lost spans; refused: by the receiver; stopped: the gateway ended.',
    'reason',
  ),
  gateway_trace_spans_exported_total: counter('Spans that the OTLP receiver accepted.'),
  gateway_tunnels_ended_total: counter('Tunnels that have ended; closed: by either side.', 'reason'),
  gateway_tunnels_open: gauge('Open tunnels.'),
  gateway_upstream_attempts_total: counter(
    'Ended attempts to send a request upstream.',
    'upstream',
    'outcome',
  ),
  gateway_upstream_breaker_opened_total: counter(
    'How often the circuit breaker of the upstream opened.',
    'upstream',
  ),
  gateway_upstream_breaker_state: gauge(
    'Circuit breaker of the upstream: 0 closed, 1 half open, 2 open. No sample without a breaker.',
    'upstream',
  ),
  gateway_upstream_group_healthy: gauge('0 when no upstream of the group is healthy, else 1.', 'group'),
  gateway_upstream_healthy: gauge(
    '0 when the last connection to the upstream or its health checks failed, else 1.',
    'upstream',
  ),
  gateway_upstream_request_duration_seconds: histogram(
    'Time from sending a request upstream to the head of its response. A retried request is timed from its first attempt, and counted for the upstream of its last.',
    REQUEST_SECONDS,
    'upstream',
  ),
  gateway_upstream_unanswered_total: counter(
    'Requests whose client left after waiting more than 1 s for the head of the response.',
    'upstream',
  ),
  gateway_upstream_retries_total: counter(
    'Retries by `retry` of a group; denied: not sent, because the budget was used up.',
    'group',
    'outcome',
  ),
}

export type Families = { readonly [Name in keyof typeof METRICS]: ReturnType<(typeof METRICS)[Name]> }

export function makeFamilies(): Families {
  const families = Object.entries(METRICS).map(([name, make]) => [name, make(name)])
  return Object.fromEntries(families) as Families
}

function counter<const Names extends Labels>(help: string, ...labels: Names) {
  return (name: string) => new Counter({ name, help, labels })
}

function gauge<const Names extends Labels>(help: string, ...labels: Names) {
  return (name: string) => new Gauge({ name, help, labels })
}

function histogram<const Names extends Labels>(help: string, bounds: readonly number[], ...labels: Names) {
  return (name: string) => new Histogram({ name, help, labels }, bounds)
}
