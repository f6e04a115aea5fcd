import type { App, Services } from './services.ts'

/** GET /healthz, for the container: the process answers and so does its database. The gateway does not route it. */
export function registerHealth(app: App, { database }: Services): void {
  app.get('/healthz', { schema: { hide: true } }, async () => {
    await database.query('SELECT 1')
    return { status: 'ok' }
  })
}
