import type { ServerResponse } from 'node:http'
import { setTimeout as after } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import type { App } from '../services.ts'

/** Two deadlines, together below the 10 s after which Docker kills the process. */
const DRAIN_MS = 7_000
const CLOSE_MS = 2_000
const LOOK_EVERY_MS = 100

interface Closable {
  close(): Promise<unknown>
}

/** Finishes requests in flight, then closes the database. Returns the exit status: 1 when something was cut off. */
export async function shutDown(
  running: { readonly app: Closable; readonly database: Closable },
  logger: Pick<FastifyBaseLogger, 'error' | 'info'>,
  { drainMs = DRAIN_MS, closeMs = CLOSE_MS } = {},
): Promise<0 | 1> {
  const isDrained = await closesWithin(drainMs, running.app)
  if (!isDrained) logger.error('requests still in flight at the deadline are cut off')
  const isClosed = await closesWithin(closeMs, running.database)
  if (!isClosed) logger.error('the database could not be closed in time')
  logger.info('stopped')
  return isDrained && isClosed ? 0 : 1
}

function closesWithin(ms: number, part: Closable): Promise<boolean> {
  return Promise.race([part.close().then(() => true), after(ms, false)])
}

/**
 * Lets `close()` of the app end soon after its last response. Node alone closes only connections that are idle when
 * `close()` begins. Call this before you add other hooks, so that it sees every request.
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
    // The gateway must not reuse these connections.
    for (const response of open) if (!response.headersSent) response.setHeader('connection', 'close')
    timer = setInterval(() => {
      if (open.size === 0) app.server.closeAllConnections()
      else app.server.closeIdleConnections()
    }, LOOK_EVERY_MS)
  })
  app.addHook('onClose', async () => clearInterval(timer))
}
