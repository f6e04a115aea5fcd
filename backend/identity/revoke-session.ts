import type { FastifyInstance, FastifyRequest } from 'fastify'

/** Tells the gateway to refuse these sessions' access tokens. */
export const REVOKE_SESSION = 'x-revoke-session'

/** The most ids in a field: about 9 kB. Many HTTP programs refuse a head beyond 16 KiB. */
const MAX_NAMED = 200

export type NameLater = (session: string) => void

/**
 * Writes {@link REVOKE_SESSION} as one comma-separated field, because the gateway could refuse many fields. Sessions
 * that do not fit, or whose response the gateway no longer awaits, go into the next responses. Returns a function that
 * adds a session to the waiting ones, for responses that pass no hook.
 */
export function packRevokedSessions(app: Pick<FastifyInstance, 'addHook'>): NameLater {
  let waiting: string[] = []
  // The gateway reads the field for requests that it forwarded, not for probes or for its fetch of the keys.
  const forwarded = new WeakSet<FastifyRequest>()
  app.addHook('onRequest', async (request) => {
    if (request.headers['x-forwarded-for'] !== undefined) forwarded.add(request)
  })
  app.addHook('onSend', async (request, reply) => {
    const named = [reply.getHeader(REVOKE_SESSION) ?? []].flat().map(String)
    const sessions = forwarded.has(request) ? [...named, ...waiting] : named
    if (sessions.length === 0) return
    if (forwarded.has(request) && request.raw.socket.destroyed) {
      waiting = sessions
      return
    }
    reply.header(REVOKE_SESSION, sessions.slice(0, MAX_NAMED).join(', '))
    if (forwarded.has(request)) waiting = sessions.slice(MAX_NAMED)
    else waiting.push(...sessions.slice(MAX_NAMED))
  })
  return (session) => void waiting.push(session)
}
