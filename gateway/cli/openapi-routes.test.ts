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
    '/users/{user}/photo': { get: { security: [] } },
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
    { path: '/v1/users/{id}', methods: ['GET'], auth: ['bearer'] },
    { path: '/v1/users/{id}', methods: ['DELETE'], auth: ['bearer'], scopes: ['users:write'] },
    { path: '/v1/users/{user}/photo', methods: ['GET'], auth: ['none'] },
    { path: '/v1/either', methods: ['GET'], auth: ['mtls', 'bearer'] },
    { path: '/v1/optional', methods: ['GET'], auth: ['none'] },
    { path: '/v1/keyed', methods: ['GET'], auth: ['none'] },
  ])
  assert.match(
    notes.join('\n'),
    /"key" is left to the service[\s\S]*"issuer"[\s\S]*clients\.json[\s\S]*gets 404/,
  )
})

test('a document of version 2.0 is read too', () => {
  const { routes } = routesOf({
    swagger: '2.0',
    basePath: '/api',
    securityDefinitions: { login: { type: 'oauth2' } },
    paths: { '/{any}': { get: { security: [{ login: ['a'] }] } } },
  })
  assert.deepEqual(routes, [{ path: '/api/{any}', methods: ['GET'], auth: ['bearer'], scopes: ['a'] }])
})

test('operations that become one row demand together what each demands, and never less', () => {
  const files = (one: object[], other: object[]) =>
    routesOf({
      components: DOCUMENT.components,
      paths: { '/f/{name}.pdf': { get: { security: one } }, '/f/{name}.txt': { get: { security: other } } },
    })
  const { routes, notes } = files([{ oauth: ['a'] }], [{ oauth: ['b'] }])
  assert.deepEqual(routes, [{ path: '/f/*', methods: ['GET'], auth: ['bearer'], scopes: ['a', 'b'] }])
  assert.match(notes.join('\n'), /\/f\/\{name\}\.pdf became \/f\/\*: everything below/)
  assert.deepEqual(files([], [{ token: [] }]).routes, [{ path: '/f/*', methods: ['GET'], auth: ['bearer'] }])
  assert.throws(
    () => files([{ cert: [] }], [{ token: [] }]),
    /several operations for GET \/f\/\*, whose callers/,
  )
})

test('templates that differ only in the names of parameters are one row', () => {
  const { routes } = routesOf({ paths: { '/a/{x}': { get: {} }, '/a/{y}': { put: {} } } })
  assert.deepEqual(routes, [{ path: '/a/{x}', methods: ['GET', 'PUT'], auth: ['none'] }])
})

test('what is no such document is refused with a sentence', () => {
  for (const document of [null, [], 'x', {}, { paths: [] }]) {
    assert.throws(() => routesOf(document), /is no OpenAPI document/)
  }
  assert.throws(() => routesOf({ paths: { '/a': {} } }), /has no path with a method/)
})
