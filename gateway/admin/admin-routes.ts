import { type AdminResponse, type AdminRoute, text } from './admin-server.ts'
import type { ConfigInForce, ConfigReport } from './config-in-force.ts'
import type { ConsoleSources } from './console/console-state.ts'
import { CONTENT_TYPES, type Exposition, type Metrics } from './metrics.ts'

/** One page serves all requests that come while it is computed or in the same turn of the event loop. */
export function metricsRoute(metrics: Pick<Metrics, 'expose'>): AdminRoute {
  const pages = new Map<Exposition, Promise<Buffer>>()
  const compute = (format: Exposition) => {
    const computed = metrics.expose(format).then((text) => Buffer.from(text))
    const page = computed.finally(() => setImmediate(() => pages.delete(format)))
    pages.set(format, page)
    return page
  }
  return {
    path: '/metrics',
    method: 'GET',
    access: 'operator',
    respond: async ({ headers: { accept = '' } }) => {
      const format = expositionFor(accept)
      const body = await (pages.get(format) ?? compute(format))
      return { status: 200, contentType: CONTENT_TYPES[format], body }
    },
  }
}

/** OpenMetrics when `accept` weighs it at least as high as text (RFC 9110 section 12.5.1). */
function expositionFor(accept: string): Exposition {
  const weightOf = (type: string) => {
    const range = accept
      .toLowerCase()
      .split(',')
      .find((one) => one.split(';', 1)[0]?.trim() === type)
    return range === undefined ? 0 : Number(/;\s*q=([\d.]+)/.exec(range)?.[1] ?? 1)
  }
  const weight = weightOf('application/openmetrics-text')
  return weight > 0 && weight >= weightOf('text/plain') ? 'openmetrics' : 'text'
}

export function probeRoutes({
  readiness,
  degradation,
}: Pick<ConsoleSources, 'readiness' | 'degradation'>): AdminRoute[] {
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

export function configRoutes(config: ConfigInForce, reload: () => Promise<void>): AdminRoute[] {
  let underWay: Promise<unknown> = Promise.resolve()
  let next: Promise<AdminResponse> | undefined
  const reloadOnce = async () => {
    const results = await config.reloadedBy(reload)
    const isGood = Object.values(results).every(({ result }) => result !== 'failure')
    return json(isGood ? 200 : 422, results)
  }
  let shown: { readonly report: ConfigReport; readonly response: AdminResponse } | undefined
  // A report of thousands of rows is serialised once.
  const show = () => {
    const report = config.report()
    if (shown?.report !== report) shown = { report, response: json(200, report) }
    return shown.response
  }
  return [
    { path: '/config', method: 'GET', access: 'operator', respond: show },
    {
      path: '/reload',
      method: 'POST',
      access: 'operator',
      // Requests share the next reload: the one under way may have read the files before an edit.
      respond: () => {
        next ??= underWay.then(() => {
          next = undefined
          const reloading = reloadOnce()
          underWay = reloading.catch(() => {})
          return reloading
        })
        return next
      },
    },
  ]
}

function json(status: number, value: unknown): AdminResponse {
  return { status, contentType: 'application/json', body: `${JSON.stringify(value, null, 2)}\n` }
}
