import type { AdminResponse, AdminRoute } from './admin-route.ts'
import type { ConfigInForce, ConfigReport } from './config-in-force.ts'

interface Parts {
  readonly config: ConfigInForce
  /** Reads the configuration files now; resolves when the results are in `config`. */
  readonly reload: () => Promise<void>
}

/** GET /config (what is in force) and POST /reload (read the files now). */
export function configRoutes({ config, reload }: Parts): AdminRoute[] {
  let reloading: Promise<AdminResponse> | undefined
  const reloadOnce = async () => {
    const results = await config.reloadedBy(reload)
    const isGood = Object.values(results).every(({ result }) => result !== 'failure')
    return json(isGood ? 200 : 422, results)
  }
  let shown: { readonly report: ConfigReport; readonly response: AdminResponse } | undefined
  // A table of thousands of rows is written once, however often it is asked for.
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
      // Who asks while files are being read shares the result: many requests cause no more work than one.
      respond: () => {
        reloading ??= reloadOnce().finally(() => {
          reloading = undefined
        })
        return reloading
      },
    },
  ]
}

/** 200, or 422 when the last good content of a file stays in force. */
function json(status: number, value: unknown): AdminResponse {
  return { status, contentType: 'application/json', body: `${JSON.stringify(value, null, 2)}\n` }
}
