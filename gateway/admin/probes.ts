import { type AdminRoute, text } from './admin-route.ts'

interface Probed {
  /** Why the gateway is not ready, in a few words; undefined when it is. */
  readonly readiness: () => string | undefined
  /** What does not work although the gateway is ready; undefined when everything does. */
  readonly degradation: () => string | undefined
}

/** /healthz (the process runs) and /readyz (it should get traffic). */
export function probeRoutes({ readiness, degradation }: Probed): AdminRoute[] {
  return [
    { path: '/healthz', method: 'GET', access: 'anyone', respond: () => text(200, 'alive\n') },
    {
      path: '/readyz',
      method: 'GET',
      access: 'anyone',
      respond: () => {
        const reason = readiness()
        if (reason !== undefined) return text(503, `${reason}\n`)
        const lacking = degradation()
        return text(200, lacking === undefined ? 'ready\n' : `degraded: ${lacking}\n`)
      },
    },
  ]
}
