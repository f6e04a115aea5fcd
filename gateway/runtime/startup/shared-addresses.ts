import { join } from 'node:path'
import { type Environment, writtenKeys } from '../../config/environment.ts'
import { reachable } from '../../edge/rules/network.ts'
import { existingOrNew } from '../../storage/secret-file.ts'

type Shared = 'GATEWAY_UPSTREAM' | 'GATEWAY_ISSUER' | 'PUBLIC_URL' | 'PUBLIC_MTLS_URL'
const DEFAULT_PUBLIC_URL = 'http://localhost:8080'

/** Variables by which gateway and backend of `npm start` find each other. What the operator set stays. */
export function sharedAddresses(env: Environment): Partial<Record<Shared, string>> {
  const { BACKEND_HOST: host, BACKEND_PORT, GATEWAY_PORT, GATEWAY_TLS_PORT } = env
  const written = writtenKeys(env)
  const shared: Partial<Record<Shared, string>> = {}
  const backendPort = BACKEND_PORT || '3000'
  if ((host || BACKEND_PORT) && backendPort !== '0' && !env.GATEWAY_UPSTREAM && !written.upstream)
    shared.GATEWAY_UPSTREAM = `http://${reachable(host || '127.0.0.1')}:${backendPort}`
  const isIssuerSet =
    Boolean(env.GATEWAY_ISSUER) || (written.issuer ?? DEFAULT_PUBLIC_URL) !== DEFAULT_PUBLIC_URL
  if (!env.PUBLIC_URL && !isIssuerSet && Number(GATEWAY_PORT) > 0)
    shared.PUBLIC_URL = `http://localhost:${GATEWAY_PORT}`
  const publicUrl = env.PUBLIC_URL || shared.PUBLIC_URL
  // The issuer in the backend's tokens is its URL without trailing slashes.
  if (publicUrl && !isIssuerSet) shared.GATEWAY_ISSUER = publicUrl.replace(/\/+$/, '')
  // PUBLIC_MTLS_URL leads to the HTTPS listener, where clients present certificates. The backend's metadata names it.
  // If PUBLIC_URL is https, clients may be able to reach only PUBLIC_URL, so PUBLIC_MTLS_URL is not set.
  const url = URL.parse(publicUrl || 'http://localhost')
  if (!env.PUBLIC_MTLS_URL && Number(GATEWAY_TLS_PORT) > 0 && url?.protocol === 'http:')
    shared.PUBLIC_MTLS_URL = `https://${url.hostname}:${GATEWAY_TLS_PORT}`
  return shared
}

/** Variables that name the file of the shared secret. If the operator set only one, it counts for both. */
export function sharedSecret(env: Environment): {
  readonly GATEWAY_UPSTREAM_SECRET_FILE: string
  readonly BACKEND_GATEWAY_SECRET_FILE: string
} {
  const { GATEWAY_UPSTREAM_SECRET_FILE: gateway, BACKEND_GATEWAY_SECRET_FILE: backend } = env
  const file = gateway || backend || existingOrNew(join(env.GATEWAY_DATA_DIR || 'data', 'upstream-secret'))
  return { GATEWAY_UPSTREAM_SECRET_FILE: gateway || file, BACKEND_GATEWAY_SECRET_FILE: backend || file }
}
