import type { App, Services } from '../services.ts'

/**
 * For the container and the orchestrator; the gateway routes neither. GET /healthz: the process responds. GET /readyz:
 * its database does too, otherwise 503. Two probes, because restarting this process does not bring a database back.
 */
export function registerHealth(app: App, { database }: Services): void {
  app.get('/healthz', { schema: { hide: true } }, async () => ({ status: 'ok' }))
  app.get('/readyz', { schema: { hide: true } }, async () => {
    await database.probe()
    return { status: 'ok' }
  })
}
