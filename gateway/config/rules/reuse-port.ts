import type { Environment } from '../environment.ts'
import type { Fault } from '../faults.ts'

/** True when other gateways of this machine also listen on the public ports. */
export function reusesPort({ GATEWAY_REUSE_PORT: text }: Environment): boolean {
  return text === 'true'
}

export function reusePortFaults(
  { port, tls }: { readonly port: number; readonly tls: { readonly port: number } | undefined },
  { env, platform }: { readonly env: Environment; readonly platform: NodeJS.Platform },
): Fault[] {
  if (!reusesPort(env)) return []
  const reasons: string[] = []
  if ((env.GATEWAY_STORE ?? 'memory') === 'memory')
    reasons.push(
      'needs GATEWAY_STORE: without a shared store each gateway would count for itself, and let the whole limit through',
    )
  for (const [name, number] of [
    ['GATEWAY_PORT', port],
    ['GATEWAY_TLS_PORT', tls?.port],
  ]) {
    if (number === 0)
      reasons.push(`needs a ${name} other than 0: with 0 each gateway would listen on another port`)
  }
  if (platform !== 'linux')
    reasons.push(`needs Linux: ${platform} does not distribute connections among those who listen`)
  return reasons.map((reason) => ({ file: 'environment', path: 'GATEWAY_REUSE_PORT', reason }))
}
