import type { Environment } from '../environment.ts'
import type { Fault } from '../faults.ts'
import type { GatewayFile } from '../gateway-file.ts'
import type { ReadFile } from '../load-file.ts'
import { loadUpstreamSecret } from '../secret-line.ts'
import { loadTracing } from '../tracing-settings.ts'
import { loadUpstreamTls } from '../upstreams/upstream-tls-files.ts'
import { loadVouching } from '../witness-settings.ts'
import { parseStoreSettings } from './store-address.ts'

interface Known {
  readonly env: Environment
  readonly configFile: string
  /** Undefined: it has faults of its own. */
  readonly file: GatewayFile | undefined
  readonly readFile: ReadFile | undefined
}

/**
 * Faults that are there whatever the part says that cannot be read: of the store, the receiver of spans, the upstream secret, and, by
 * a sound file, of TLS with upstreams and of who vouches for the trail.
 */
export function remainingFaults({ env, configFile, file, readFile }: Known): Fault[] {
  const upstreamSecretFile = env.GATEWAY_UPSTREAM_SECRET_FILE || file?.upstreamSecretFile
  const read = [
    loadUpstreamSecret({ upstreamSecretFile }, readFile),
    parseStoreSettings(env, readFile),
    loadTracing({ configFile, written: file?.tracing, env, readFile }),
  ]
  const faults = read.flatMap((one) => one.faults ?? [])
  if (file === undefined) return faults
  faults.push(...(loadVouching({ configFile, written: file.audit, readFile }).faults ?? []))
  // The default group has the targets of the environment, if it names any.
  if (env.GATEWAY_UPSTREAM !== undefined) return faults
  return [...faults, ...(loadUpstreamTls({ ...file, configFile, readFile }).faults ?? [])]
}
