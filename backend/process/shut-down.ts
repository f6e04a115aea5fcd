import { setTimeout as after } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'

/** Together less than the 10 s after which Docker kills. */
const DRAIN_MS = 7_000
const CLOSE_MS = 2_000

interface Closable {
  close(): Promise<unknown>
}

/**
 * Finishes what is in flight, then closes the database, each in its time. @returns the exit status: 1 when something was cut
 * off
 */
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
