import type { ServerResponse } from 'node:http'
import type { App } from '../services.ts'

const LOOK_EVERY_MS = 100

/**
 * Lets `close()` of the app end moments after its last response. Node closes only the connections that are idle when it
 * begins: later ones would stay for as long as the gateway keeps them, and those that have sent nothing, or only their end
 * is missing, for ever. Before all other hooks, so that it sees every request.
 */
export function closeConnections(app: App): void {
  const open = new Set<ServerResponse>()
  app.addHook('onRequest', (_request, { raw }, done) => {
    open.add(raw)
    raw.once('close', () => open.delete(raw))
    done()
  })
  let timer: NodeJS.Timeout | undefined
  app.addHook('preClose', async () => {
    // The gateway must not send its next request on them.
    for (const response of open) if (!response.headersSent) response.setHeader('connection', 'close')
    timer = setInterval(() => {
      if (open.size === 0) app.server.closeAllConnections()
      else app.server.closeIdleConnections()
    }, LOOK_EVERY_MS)
  })
  app.addHook('onClose', async () => clearInterval(timer))
}
