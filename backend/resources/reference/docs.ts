import { readFileSync } from 'node:fs'
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import { PROBLEM_CONTENT, ProblemSchema } from '../../problems.ts'
import type { App, Services } from '../../services.ts'

/** The page may only call the API that it documents. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "form-action 'none'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ')

const TITLE = 'Countersign demo API'
const DESCRIPTION = `The API behind the gateway. Every error is \`application/problem+json\` (RFC 9457) with a stable
\`code\`; a 400 names each field. Amounts are decimal strings.

Every operation may also get a status by which the gateway refuses faulty HTTP: 408, 413, 414, 417 or 431.`

/** Serves GET /docs and GET /openapi.json, which describes the routes registered after this. */
export async function registerDocs(app: App, { publicUrl }: Services): Promise<void> {
  app.addSchema(ProblemSchema)
  await app.register(swagger, {
    transform: ({ schema, url }) => ({ url, schema: { ...schema, response: withContent(schema?.response) } }),
    transformObject: (document) =>
      withoutOwnKeywords('openapiObject' in document ? document.openapiObject : {}),
    refResolver: { buildLocalReference: (schema) => String(schema.$id) },
    openapi: {
      openapi: '3.1.0',
      info: {
        title: TITLE,
        version: '1.0.0',
        description: DESCRIPTION,
        license: { name: 'MIT', identifier: 'MIT' },
      },
      // The default for operations.
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
    theme: {
      title: TITLE,
      css: [{ filename: 'docs.css', content: fileOfPage('docs.css') }],
      js: [{ filename: 'docs.js', content: fileOfPage('docs.js') }],
      favicon: [
        {
          filename: 'icon.svg',
          rel: 'icon',
          type: 'image/svg+xml',
          sizes: 'any',
          content: fileOfPage('icon.svg'),
        },
      ],
    },
    // The page calls its own origin, whatever the public URL is.
    transformSpecification: (document) => ({ ...document, servers: undefined }),
    uiConfig: {
      layout: 'BaseLayout',
      deepLinking: false,
      displayRequestDuration: true,
      syntaxHighlight: { theme: 'obsidian' },
    },
  })
  app.get('/openapi.json', { schema: { hide: true } }, async () => app.swagger())
}

function withContent(responses: unknown): unknown {
  const entries = Object.entries((responses ?? {}) as Record<string, object>)
  return Object.fromEntries(
    entries.map(([status, its]) => [
      status,
      Number(status) >= 400 ? { ...its, content: PROBLEM_CONTENT } : its,
    ]),
  )
}

/** Removes keywords that only our validator knows (validation.ts). */
function withoutOwnKeywords(document: object) {
  return JSON.parse(JSON.stringify(document, (key, value) => (key === 'choiceOf' ? undefined : value)))
}

function fileOfPage(name: string): string {
  return readFileSync(new URL(`page/${name}`, import.meta.url), 'utf8')
}
