import type { FastifyInstance, FastifyRequest } from 'fastify'

/** The header of a response that tells the gateway to refuse the access tokens of sessions from now on. */
export const REVOKE_SESSION = 'x-revoke-session'

/** With ids of 43 characters some 9 kB: HTTP programs commonly refuse a head beyond 16 KiB. */
const MAX_NAMED = 200

/**
 * Writes {@link REVOKE_SESSION} as one field, a list with commas, whatever number of sessions a handler names: a field
 * each would make a head that nobody accepts, and then none of them would be revoked. Sessions beyond what a head can
 * hold, and those of a response that the gateway no longer waits for, are named by the next responses that it forwards,
 * of whichever request.
 */
export function packRevokedSessions(app: Pick<FastifyInstance, 'addHook'>): void {
  let waiting: string[] = []
  // Not probes, and not the gateway's own look at the keys: nobody reads this field there.
  const forwarded = new WeakSet<FastifyRequest>()
  app.addHook('onRequest', async (request) => {
    if (request.headers['x-forwarded-for'] !== undefined) forwarded.add(request)
  })
  app.addHook('onSend', async (request, reply) => {
    const named = [reply.getHeader(REVOKE_SESSION) ?? []].flat().map(String)
    const sessions = forwarded.has(request) ? [...named, ...waiting] : named
    if (sessions.length === 0) return
    // The gateway gave up waiting, or its client has gone: nobody would hear of them.
    if (forwarded.has(request) && request.raw.socket.destroyed) {
      waiting = sessions
      return
    }
    reply.header(REVOKE_SESSION, sessions.slice(0, MAX_NAMED).join(', '))
    if (forwarded.has(request)) waiting = sessions.slice(MAX_NAMED)
    else waiting.push(...sessions.slice(MAX_NAMED))
  })
}
