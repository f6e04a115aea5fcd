import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import { ProblemSchema } from '../problems.ts'
import type { App, Services } from '../services.ts'

/**
 * The page loads everything from here, and may only call the API that it documents. Inline styles are allowed because Swagger
 * UI needs them for its icons; inline scripts are not.
 */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** Stands at the top of the page, on a dark bar, in place of the framework's. */
const LOGO = Buffer.from(
  `<svg xmlns="http://www.w3.org/2000/svg" width="240" height="40" viewBox="0 0 240 40" role="img" aria-label="Countersign">
<path d="M20 4 6 9v10c0 8 6 14 14 17 8-3 14-9 14-17V9z" fill="none" stroke="#7fd1ae" stroke-width="2.5"/>
<path d="m13 20 5 5 9-10" fill="none" stroke="#7fd1ae" stroke-width="3" stroke-linecap="round" stroke-linejoin="round"/>
<text x="44" y="28" fill="#fff" font-family="system-ui, sans-serif" font-size="23" font-weight="600">Countersign</text>
</svg>`,
)

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
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    staticCSP: CONTENT_SECURITY_POLICY,
    logo: { type: 'image/svg+xml', content: LOGO, href: '/docs', target: '_self' },
    theme: {
      title: 'Countersign demo API',
      favicon: [{ filename: 'favicon.svg', rel: 'icon', type: 'image/svg+xml', sizes: 'any', content: LOGO }],
    },
    uiConfig: { deepLinking: true, displayRequestDuration: true, validatorUrl: null },
  })
  app.get('/openapi.json', { schema: { hide: true } }, async () => app.swagger())
}

/** The document without the keywords that only our validator knows (validation.ts). */
function withoutOwnKeywords(document: object) {
  return JSON.parse(JSON.stringify(document, (key, value) => (key === 'choiceOf' ? undefined : value)))
}
