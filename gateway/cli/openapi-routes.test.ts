import assert from 'node:assert/strict'
import { test } from 'node:test'
import { routesOf } from './openapi-routes.ts'

const DOCUMENT = {
  openapi: '3.1.0',
  servers: [{ url: 'https://api.example/v1/' }],
  security: [{ token: [] }],
  components: {
    securitySchemes: {
      token: { type: 'http', scheme: 'Bearer' },
      oauth: { type: 'oauth2' },
      cert: { type: 'mutualTLS' },
      key: { type: 'apiKey' },
    },
  },
  paths: {
    '/login': { post: { security: [] } },
    '/users': { parameters: [], get: { security: [{ oauth: ['users:read'] }] }, post: {} },
    '/users/{id}': { get: {}, delete: { security: [{ oauth: ['users:write'] }] } },
    '/users/{id}/photo': { get: { security: [] } },
    '/either': { get: { security: [{ cert: [] }, { token: [] }] } },
    '/optional': { get: { security: [{ token: [] }, {}] } },
    '/keyed': { get: { security: [{ key: [] }] }, trace: {} },
  },
}

test('each path of an OpenAPI document is a row, with its methods, its security and the path of its server', () => {
  const { routes, notes } = routesOf(DOCUMENT)
  assert.deepEqual(routes, [
    { path: '/v1/login', methods: ['POST'], auth: ['none'] },
    { path: '/v1/users', methods: ['GET'], auth: ['bearer'], scopes: ['users:read'] },
    { path: '/v1/users', methods: ['POST'], auth: ['bearer'] },
    // Of two operations that are one prefix, the one that demands more.
    { path: '/v1/users/*', methods: ['GET'], auth: ['bearer'] },
    { path: '/v1/users/*', methods: ['DELETE'], auth: ['bearer'], scopes: ['users:write'] },
    { path: '/v1/either', methods: ['GET'], auth: ['mtls', 'bearer'] },
    { path: '/v1/optional', methods: ['GET'], auth: ['none'] },
    { path: '/v1/keyed', methods: ['GET'], auth: ['none'] },
  ])
  assert.match(
    notes.join('\n'),
    /became a prefix[\s\S]*"key" is left to the service[\s\S]*"issuer"[\s\S]*clients\.json/,
  )
})

test('a document of version 2.0 is read too', () => {
  const { routes } = routesOf({
    swagger: '2.0',
    basePath: '/api',
    securityDefinitions: { login: { type: 'oauth2' } },
    paths: { '/{any}': { get: { security: [{ login: ['a'] }] } } },
  })
  assert.deepEqual(routes, [{ path: '/api/*', methods: ['GET'], auth: ['bearer'], scopes: ['a'] }])
})

test('what is no such document is refused with a sentence', () => {
  for (const document of [null, [], 'x', {}, { paths: [] }]) {
    assert.throws(() => routesOf(document), /is no OpenAPI document/)
  }
  assert.throws(() => routesOf({ paths: { '/a': {} } }), /has no path with a method/)
})
