import type { AddressInfo } from 'node:net'
import fastify, { type FastifyPluginCallback, type FastifyReply, type FastifyRequest } from 'fastify'
import { type Admission, FIXED_HEADERS, load, Policy, settingsOf } from './peer-policy.ts'

// @fastify/http-proxy with the gateway's features added by hand, as hooks.

const settings = settingsOf(process.argv[2])
const policy = new Policy(settings)
const app = fastify({ keepAliveTimeout: 65_000 })
const admissions = new WeakMap<FastifyRequest, Admission>()

app.addHook('onRequest', (request: FastifyRequest, reply: FastifyReply, done: () => void) => {
  const admission = policy.admit({
    method: request.method,
    path: request.url,
    authorization: request.headers.authorization,
    agent: request.headers['user-agent'],
    ip: request.ip,
  })
  if (typeof admission === 'number') {
    reply.code(admission).send()
    return
  }
  admissions.set(request, admission)
  for (const [name, value] of FIXED_HEADERS) reply.header(name, value)
  reply.header('X-Request-ID', admission.requestId)
  done()
})
app.addHook('onResponse', (request: FastifyRequest, reply: FastifyReply, done: () => void) => {
  const admission = admissions.get(request)
  if (admission !== undefined) policy.close(admission, reply.statusCode)
  done()
})
app.register(load<FastifyPluginCallback<Record<string, unknown>>>(settings.peer), {
  upstream: `http://127.0.0.1:${settings.upstreamPort}`,
  undici: { connections: 256, pipelining: 1 },
  replyOptions: {
    rewriteRequestHeaders: (request: FastifyRequest, headers: object) => ({
      ...headers,
      'x-request-id': admissions.get(request)?.requestId,
      'x-forwarded-for': request.ip,
      'x-forwarded-proto': 'http',
      'x-auth-subject': admissions.get(request)?.subject,
    }),
  },
})
await app.listen({ port: 0, host: '127.0.0.1' })
process.send?.({ port: (app.server.address() as AddressInfo).port })
process.on('disconnect', () => process.exit(0))
