import type { AdminRoute } from './admin-route.ts'
import type { Exposition } from './metrics.ts'

/** /metrics, for Prometheus. */
export function metricsRoute(metrics: Exposition): AdminRoute {
  return {
    path: '/metrics',
    method: 'GET',
    access: 'operator',
    respond: async () => ({ status: 200, contentType: metrics.contentType, body: await metrics.expose() }),
  }
}
