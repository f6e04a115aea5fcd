import { AUDIT_KEYS } from './audit-keys.ts'
import { ISSUER_KEYS } from './issuer-keys.ts'
import { file, type Written } from './key-types.ts'
import { LISTENER_KEYS } from './listener-keys.ts'
import { POLICY_KEYS } from './policy-keys.ts'
import { ROUTE_KEYS } from './route-keys.ts'
import { TRACING_KEYS } from './tracing-keys.ts'
import { TRAFFIC_KEYS } from './traffic-keys.ts'
import { UPSTREAM_KEYS } from './upstream-keys.ts'

export const GATEWAY_FILE = file(
  'gateway',
  'Where the gateway listens, which services it forwards to and which requests it lets through. Read at the start and after each change.',
  {
    ...UPSTREAM_KEYS,
    ...LISTENER_KEYS,
    ...ISSUER_KEYS,
    ...AUDIT_KEYS,
    ...TRAFFIC_KEYS,
    ...POLICY_KEYS,
    ...TRACING_KEYS,
    ...ROUTE_KEYS,
  },
)

export type WrittenGateway = Written<typeof GATEWAY_FILE>
export type WrittenAudit = WrittenGateway['audit']
export type WrittenRoute = WrittenGateway['routes'][number]
