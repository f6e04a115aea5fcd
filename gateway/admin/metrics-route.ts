import type { AdminRoute } from './admin-route.ts'
import type { Metrics } from './metrics.ts'

/** /metrics, for Prometheus. A page is for all who ask while it is computed, or in the same turn of the event loop. */
export function metricsRoute(metrics: Pick<Metrics, 'expose' | 'contentType'>): AdminRoute {
  let page: Promise<Buffer> | undefined
  const compute = () => {
    const computed = metrics.expose().then((text) => Buffer.from(text))
    const forget = () => {
      setImmediate(() => {
        page = undefined
      })
    }
    computed.then(forget, forget)
    return computed
  }
  return {
    path: '/metrics',
    method: 'GET',
    access: 'operator',
    respond: async () => {
      page ??= compute()
      return { status: 200, contentType: metrics.contentType, body: await page }
    },
  }
}
