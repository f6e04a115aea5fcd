import { readFileSync } from 'node:fs'
import swagger from '@fastify/swagger'
import { ProblemSchema } from '../../problems.ts'
import type { App, Services } from '../../services.ts'
import type { OpenApiDocument } from './openapi.ts'
import { referencePage } from './reference-page.ts'

/** The page loads everything from here, and may only call the API that it documents. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "form-action 'none'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
].join('; ')

const FILES = [
  { name: 'reference.css', type: 'text/css; charset=utf-8' },
  { name: 'reference.js', type: 'text/javascript; charset=utf-8' },
  { name: 'icon.svg', type: 'image/svg+xml' },
]

const DESCRIPTION = `The API behind the gateway. Every error is \`application/problem+json\` (RFC 9457) with a stable
\`code\`; a 400 names each field. Amounts are decimal strings.

Beside what an operation lists, the gateway refuses what is no good HTTP: 408, 413, 414, 417 and 431.`

/** GET /openapi.json, generated from the schemas of the routes registered after this, and GET /docs to read it. */
export async function registerDocs(app: App, { publicUrl }: Services): Promise<void> {
  app.addSchema(ProblemSchema)
  await app.register(swagger, {
    transformObject: (document) =>
      withoutOwnKeywords('openapiObject' in document ? document.openapiObject : {}),
    refResolver: { buildLocalReference: (schema) => String(schema.$id) },
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Countersign demo API',
        version: '1.0.0',
        description: DESCRIPTION,
        license: { name: 'MIT', identifier: 'MIT' },
      },
      // For every operation without a setting of its own.
      security: [],
      servers: [{ url: publicUrl }],
      components: {
        securitySchemes: {
          bearer: {
            type: 'http',
            scheme: 'bearer',
            bearerFormat: 'JWT',
            description: 'The accessToken of POST /api/login.',
          },
          webhook: {
            type: 'apiKey',
            in: 'header',
            name: 'X-API-Key',
            description: 'The id of a key, with the signature headers of Standard Webhooks 1.0.',
          },
        },
      },
      tags: [
        { name: 'session', description: 'Log in, stay in, log out' },
        { name: 'account', description: 'Balance and transfers' },
        { name: 'users', description: 'User records' },
        { name: 'identity', description: 'Travel documents' },
        { name: 'webhooks', description: 'What other systems report' },
        { name: 'reference', description: 'Data for everybody' },
      ],
    },
  })
  for (const { name, type } of FILES) {
    const bytes = readFileSync(new URL(`page/${name}`, import.meta.url))
    app.get(`/docs/${name}`, { schema: { hide: true } }, async (_, reply) => reply.type(type).send(bytes))
  }
  let page: string | undefined
  app.get('/docs', { schema: { hide: true } }, async (_, reply) => {
    page ??= referencePage(app.swagger() as unknown as OpenApiDocument)
    return reply
      .header('content-security-policy', CONTENT_SECURITY_POLICY)
      .type('text/html; charset=utf-8')
      .send(page)
  })
  app.get('/docs/', { schema: { hide: true } }, async (_, reply) => reply.redirect('/docs', 308))
  app.get('/openapi.json', { schema: { hide: true } }, async () => app.swagger())
}

/** The document without the keywords that only our validator knows (validation.ts). */
function withoutOwnKeywords(document: object) {
  return JSON.parse(JSON.stringify(document, (key, value) => (key === 'choiceOf' ? undefined : value)))
}
