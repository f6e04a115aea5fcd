import assert from 'node:assert/strict'
import { test } from 'node:test'
import { settingsWarnings } from '../../runtime/config-warnings.ts'
import { describeFault } from '../faults.ts'
import { parseGatewayFile } from '../gateway-file.ts'
import { type OperationPlace, OperationRules } from './compiled-operations.ts'

const OPEN = { responses: {} }

/** The routes of a document, with those of gateway.json; or the faults. */
function read(document: object | string, openapi: object = {}, routes?: readonly object[]) {
  const text = typeof document === 'string' ? document : JSON.stringify(document)
  const file = { openapi: { file: 'api.json', ...openapi }, ...(routes === undefined ? {} : { routes }) }
  const { value, faults } = parseGatewayFile('gateway.json', JSON.stringify(file), (name) => {
    assert.equal(name, 'api.json')
    return text
  })
  return {
    faults: faults?.map(describeFault) ?? [],
    settings: value,
    routes: value?.routes.map(({ path, methods, auth, scopes }) =>
      [path, [...(methods ?? [])].join(), [...auth].join(), scopes.map((set) => set.join()).join('|')].join(
        ' ',
      ),
    ),
  }
}

function api(paths: object, more: object = {}) {
  return { openapi: '3.1.0', security: [], paths, ...more }
}

test('each operation is a row, with the base path of the first server, and gateway.json needs no rows of its own', () => {
  const servers = [{ url: 'https://api.example/v1/' }, { url: '/v2' }]
  const document = api(
    { '/users': { get: OPEN, post: OPEN }, '/users/{id}': { delete: OPEN, 'x-y': 1 } },
    { servers },
  )
  assert.deepEqual(read(document).routes, [
    '/v1/users GET,HEAD none ',
    '/v1/users POST none ',
    '/v1/users/{id} DELETE none ',
  ])
  assert.deepEqual(read(document, { basePath: '' }).routes?.[0], '/users GET,HEAD none ')
})

test('HEAD has its own row where the document describes it, and otherwise that of GET', () => {
  const document = api(
    { '/a': { get: OPEN, head: { security: [{ token: [] }] } } },
    {
      components: { securitySchemes: { token: { type: 'http', scheme: 'bearer' } } },
    },
  )
  assert.deepEqual(read(document).routes, ['/a HEAD bearer ', '/a GET,HEAD none '])
})

test('a row has every default that a row of the file has', () => {
  const { settings } = read(api({ '/a': { get: OPEN } }), {}, [
    { path: '/b', methods: ['GET'], auth: ['none'] },
  ])
  const [own, documented] = settings!.routes
  assert.deepEqual({ ...documented, path: '/b', documentedAt: undefined, laidAt: undefined }, own)
})

test('security says who may call, and gateway.json must say what a scheme is where the document does not', () => {
  const securitySchemes = {
    token: { type: 'http', scheme: 'Bearer' },
    oauth: { type: 'oauth2' },
    certificate: { type: 'mutualTLS' },
    key: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
  }
  const secured = (security: unknown) =>
    api({ '/a': { get: { security } } }, { components: { securitySchemes } })
  assert.deepEqual(read(secured([{ token: ['a', 'b'] }])).routes, ['/a GET,HEAD bearer a,b'])
  assert.deepEqual(read(secured([{ oauth: [] }, { certificate: [] }])).routes, ['/a GET,HEAD bearer,mtls '])
  assert.deepEqual(read(secured([{}, { token: [] }])).routes, ['/a GET,HEAD none,bearer '])
  assert.deepEqual(read(secured([{ key: [] }]), { schemes: { key: 'hmac' } }).routes, ['/a GET,HEAD hmac '])
  assert.match(
    read(secured([{ key: [] }])).faults.join(),
    /\$\.paths\["\/a"\]\.get: asks for the scheme "key"/,
  )
  assert.match(read(secured([{ unknown: [] }])).faults.join(), /asks for the scheme "unknown"/)
  assert.match(
    read(secured([{ token: [], certificate: [] }])).faults.join(),
    /asks for token and certificate together/,
  )
  assert.match(read(secured([{ token: ['a'] }, { certificate: [] }])).faults.join(), /scopes that differ/)
  for (const scopes of ['a', { a: true }, 5])
    assert.match(read(secured([{ token: scopes }])).faults.join(), /must list the scopes of token, or \[\]/)
  assert.match(read(secured([[]])).faults.join(), /must be a list of security requirements/)
})

test('schemes that are needed together must be of one kind, besides those left to the service', () => {
  const securitySchemes = {
    token: { type: 'http', scheme: 'bearer' },
    oauth: { type: 'oauth2' },
    key: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
    app: { type: 'apiKey', in: 'header', name: 'X-App' },
  }
  const rowFor = (security: unknown, schemes: object) =>
    read(api({ '/a': { get: { security } } }, { components: { securitySchemes } }), { schemes }).routes?.[0]
  const open = { key: 'none', app: 'none' }
  assert.equal(rowFor([{ key: [], app: [] }], open), '/a GET,HEAD none ')
  assert.equal(rowFor([{ key: ['k'], oauth: ['a'] }], open), '/a GET,HEAD bearer a')
  assert.equal(rowFor([{ token: ['b'], oauth: ['a', 'b'] }], open), '/a GET,HEAD bearer b,a')
  assert.equal(rowFor([{ oauth: ['payments'] }], { oauth: 'none' }), '/a GET,HEAD none ')
  assert.equal(rowFor([{ key: [], app: [] }], { key: 'hmac', app: 'hmac' }), '/a GET,HEAD hmac ')
})

test('alternatives with different scopes ask for any of their sets, and one without scopes for none', () => {
  const securitySchemes = {
    token: { type: 'http', scheme: 'bearer' },
    oauth: { type: 'oauth2' },
    certificate: { type: 'mutualTLS' },
    key: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
  }
  const readOne = (security: unknown) =>
    read(api({ '/a': { get: { security } } }, { components: { securitySchemes } }), {
      schemes: { key: 'none' },
    })
  for (const [security, row] of [
    [[{ oauth: ['a', 'b'] }, { oauth: ['c'] }], 'bearer a,b|c'],
    [[{ oauth: ['a'] }, { token: ['b'] }], 'bearer a|b'],
    [[{ oauth: ['a', 'b'] }, { oauth: ['b'] }, { oauth: ['b', 'c'] }, { token: ['b'] }], 'bearer b'],
    [[{ oauth: ['a'] }, { oauth: [] }], 'bearer '],
    [[{ oauth: ['a'] }, { certificate: ['b'] }, { oauth: ['b'] }, { certificate: ['a'] }], 'bearer,mtls a|b'],
    [[{ oauth: ['a'] }, {}], 'bearer,none '],
    [[{ oauth: ['a'] }, { key: [] }], 'bearer,none '],
  ] as const)
    assert.equal(readOne(security).routes?.[0], `/a GET,HEAD ${row}`)
  const unequal = /asks for scopes that differ by kind of credential/
  assert.match(readOne([{ oauth: ['a'] }, { certificate: ['b'] }]).faults.join(), unequal)
  assert.match(readOne([{ oauth: ['a'] }, { certificate: [] }]).faults.join(), unequal)
})

test('servers of an operation count before servers of its path, which count before servers of the document', () => {
  const at = (url: string) => ({ servers: [{ url }, { url: '/other' }] })
  const document = api(
    {
      '/a': { ...at('https://own.example/v2/'), get: OPEN, post: { ...OPEN, ...at('/v3') } },
      '/b': { servers: [], get: OPEN },
    },
    at('https://api.example/v1'),
  )
  const pathsOf = (openapi: object) =>
    read(document, openapi).settings?.routes.map(({ path, documentedAt }) => `${path} ${documentedAt}`)
  assert.deepEqual(pathsOf({}), [
    '/v2/a api.json#/paths/~1a/get',
    '/v3/a api.json#/paths/~1a/post',
    '/v1/b api.json#/paths/~1b/get',
  ])
  assert.deepEqual(pathsOf({ basePath: '/x' }), [
    '/x/a api.json#/paths/~1a/get',
    '/x/a api.json#/paths/~1a/post',
    '/x/b api.json#/paths/~1b/get',
  ])
  const variables = { region: { default: 'eu' }, base: { default: 'v9' } }
  const varying = api(
    { '/a': { get: OPEN } },
    { servers: [{ url: 'https://{region}.example/{base}', variables }] },
  )
  assert.equal(read(varying).routes?.[0], '/v9/a GET,HEAD none ')
  for (const url of [
    'https://host:{port}/v9',
    '{scheme}://{host}/v9',
    'https://host:<port>/v9',
    '//{host}/v9',
  ])
    assert.equal(
      read(api({ '/a': { get: OPEN } }, { servers: [{ url, variables: { port: { default: 8443 } } }] }))
        .routes?.[0],
      '/v9/a GET,HEAD none ',
      url,
    )
  const own = [{ path: '/v3/a', methods: ['POST'], auth: ['bearer'] }]
  assert.equal(read(document, {}, own).settings?.routes.length, 3)
})

test('a document of version 3.2 may have QUERY, further methods and media types that are referred to', () => {
  const content = { 'application/json': { $ref: '#/components/mediaTypes/example' } }
  const search = { requestBody: { required: true, content } }
  const document = {
    ...api(
      {
        '/a/{id}': {
          parameters: [{ name: 'id', in: 'path', required: true, schema: { type: 'integer' } }],
          query: search,
          additionalOperations: { LINK: search },
        },
      },
      { components: { mediaTypes: { example: { schema: { type: 'object', required: ['x'] } } } } },
    ),
    openapi: '3.2.0',
  }
  const { routes, settings, faults } = read(document, { validateRequests: true })
  assert.deepEqual(faults, [])
  assert.deepEqual(routes, ['/a/{id} QUERY none ', '/a/{id} LINK none '])
  const places = settings!.routes.map(
    ({ operations }) => Object.values(operations ?? {})[0] as OperationPlace,
  )
  const rules = new OperationRules(settings!.openapi!.document!, places)
  for (const place of places) {
    const { content: [body] = [], parameters } = rules.get(place)!
    assert.deepEqual(body?.fits?.({}), { pointer: '/x', reason: 'is missing' })
    assert.deepEqual(
      parameters.map(({ name }) => name),
      ['id'],
    )
  }
  const odd = { ...document, paths: { '/a': { additionalOperations: { TRACE: OPEN, Foo: OPEN } } } }
  assert.match(
    read(odd).faults.join(),
    /additionalOperations\.TRACE: must not be "TRACE".*\.Foo: must be a known method/,
  )
})

test('operations that differ only behind "#" are one row, whose requests are not validated', () => {
  const post = { requestBody: { content: { 'application/json': { schema: { type: 'object' } } } } }
  const document = api({
    '/#A': { post },
    '/#B': { post },
    '/tags/{x}#keys': { post, get: OPEN },
    '/tags/{y}': { get: OPEN },
  })
  const { routes, settings } = read(document, { validateRequests: true })
  assert.deepEqual(routes, ['/ POST none ', '/tags/{x} GET,HEAD none ', '/tags/{x} POST none '])
  assert.deepEqual(
    settings!.routes.map(({ operations }) => operations && Object.keys(operations)),
    [undefined, undefined, ['POST']],
  )
  const own = [{ path: '/', methods: ['POST'], auth: ['none'] }]
  assert.equal(read(document, { validateRequests: true }, own).settings!.routes[0]!.operations, undefined)
  const others = api(
    { '/#A': { post }, '/#B': { post: { ...post, security: [{ token: [] }] } } },
    { components: { securitySchemes: { token: { type: 'http', scheme: 'bearer' } } } },
  )
  assert.match(read(others).faults.join(), /\["\/#B"\]\.post: has a path that may be taken for "\/"/)
})

test('an operation without security is a fault, unless gateway.json has openapi.auth', () => {
  const silent = { ...api({ '/a': { get: OPEN } }), security: undefined }
  assert.match(
    read(silent).faults.join(),
    /^api\.json: \$\.paths\["\/a"\]\.get: does not say who may call it/,
  )
  assert.deepEqual(read(silent, { auth: ['bearer'] }).routes, ['/a GET,HEAD bearer '])
})

test('rows of gateway.json take the place of operations with the same path and method', () => {
  const document = api({ '/users/{id}': { get: OPEN, put: OPEN }, '/a': { get: OPEN } })
  const own = [{ path: '/users/{user}', methods: ['GET'], auth: ['bearer'] }]
  assert.deepEqual(read(document, {}, own).routes, [
    '/users/{user} GET,HEAD bearer ',
    '/users/{id} PUT none ',
    '/a GET,HEAD none ',
  ])
  const all = [{ path: '/users/{id}', auth: ['bearer'] }]
  assert.deepEqual(read(document, {}, all).routes, ['/users/{id}  bearer ', '/a GET,HEAD none '])
})

test('an operation whose place a row of gateway.json takes may have security that no row can ask for', () => {
  const securitySchemes = { token: { type: 'http', scheme: 'bearer' }, certificate: { type: 'mutualTLS' } }
  const own = [{ path: '/a/{b}', methods: ['GET'], auth: ['bearer'] }]
  for (const security of [
    [{ token: [], certificate: [] }],
    [{ token: ['x'] }, { certificate: [] }],
    [{ unknown: [] }],
    undefined,
  ]) {
    const document = {
      ...api(
        { '/a/{id}': { get: { security }, put: { security: [] } } },
        { components: { securitySchemes } },
      ),
      security: undefined,
    }
    assert.deepEqual(read(document, {}, own).routes, ['/a/{b} GET,HEAD bearer ', '/a/{id} PUT none '])
    assert.match(
      read(document, {}, [{ path: '/a/{b}', methods: ['POST'], auth: ['bearer'] }]).faults.join(),
      /^api\.json: \$\.paths\["\/a\/\{id\}"\]\.get: .* \(line 1\)$/,
    )
  }
})

test('operations that differ after "#" and by security that no row can ask for are a fault, though a row replaces them', () => {
  const document = api({
    '/a#x': { get: { security: [{ unknown: [] }] } },
    '/a#y': { get: { security: [{ other: [] }] } },
  })
  assert.match(
    read(document, {}, [{ path: '/a', auth: ['bearer'] }]).faults.join(),
    /may be taken for "\/a", which has this method too/,
  )
})

test('a row that differs from an operation only in letter case or a closing slash is a fault of the operation', () => {
  const document = api({ '/users/{id}': { get: OPEN, put: OPEN } })
  for (const path of ['/Users/{id}', '/users/{id}/'])
    assert.deepEqual(read(document, {}, [{ path, methods: ['GET'], auth: ['bearer'] }]).faults, [
      `api.json: $.paths["/users/{id}"].get: has the path "/users/{id}", which differs from ${JSON.stringify(path)} of $.routes[0] only in letter case or a closing slash: write one as the other`,
    ])
  assert.deepEqual(
    read(document, {}, [{ path: '/Users/{id}', methods: ['POST'], auth: ['bearer'] }]).faults,
    [],
  )
})

test('a document that the gateway cannot use is a fault that names the place', () => {
  const chain = Array.from({ length: 15 }, (_, at) => ({ $ref: `#/x/${at}` }))
  const cases: [document: object | string, fault: RegExp][] = [
    ['openapi: 3.1.0', /^api\.json: line 1 column 1/],
    ['1', /\$: must be an object/],
    [{ openapi: '2.0', paths: {} }, /\$\.openapi: must be a version 3\.0, 3\.1 or 3\.2/],
    [{ swagger: '2.0', paths: {} }, /but is that of Swagger 2\.0/],
    [api({}), /\$\.paths: must name a path/],
    [api({ '/files/{name': { get: OPEN } }), /must have its parameters as "\{name\}", but has "\{name"/],
    [api({ '/{a}{b}': { get: OPEN } }), /must have something between "\{a\}" and "\{b\}"/],
    [api({ '/{a}-{a}': { get: OPEN } }), /must not have "\{a\}" twice/],
    [api({ '/a/{x}/{x}': { get: OPEN } }), /must not have "\{x\}" twice/],
    [api({ '/a;b': { get: OPEN } }), /must not hold ";"/],
    [
      api({ users: { get: OPEN } }, { servers: [{ url: '/v1' }] }),
      /"users" must begin with "\/", but is "users"/,
    ],
    [
      api({ '/a': { get: { ...OPEN, servers: [{ url: '/{x}' }] } } }),
      /\.get\.servers\[0\]\.url: has no path that can be read: set openapi\.basePath/,
    ],
    [api({ '/a': { get: OPEN } }, { servers: [{ url: '{site}' }] }), /url: has no path that can be read/],
    [
      api({ '/a': { get: OPEN } }, { servers: [{ url: 'https://host//v1' }] }),
      /the path "\/\/v1\/a" must not hold "\/\/"/,
    ],
    [api({ '/a': { $ref: 'other.json' } }), /refers to "other\.json", and only what is in this document/],
    [api({ '/a': { $ref: '#/components/none' } }), /is not in this document/],
    [api({ '/a': { $ref: '#/paths/~1a' } }), /leads through 16 references or more, perhaps back to itself/],
    [
      api({ '/a': { $ref: '#/x/15' } }, { x: [OPEN, ...chain] }),
      /leads through 16 references or more, perhaps back to itself/,
    ],
    [api({ '/a/{x}': { get: OPEN }, '/A/{y}': { get: OPEN } }), /may be taken for "\/a\/\{x\}"/],
  ]
  for (const [document, fault] of cases) assert.match(read(document).faults.join('\n'), fault)
})

test('faults of the file and of its document are told together, if the file says which document is meant', () => {
  const document = api({ '/a;b': { get: OPEN } })
  const places = (openapi: object, routes?: readonly object[]) =>
    read(document, openapi, routes).faults.map((fault) => fault.split(': ').slice(0, 2).join(' '))
  const own = { path: 'a', auth: ['none'] }
  const rows = [{ path: '/c', timeoutMs: 5 }]
  assert.deepEqual(places({ rows }, [own]), ['gateway.json $.routes[0].path', 'api.json $.paths["/a;b"]'])
  assert.deepEqual(places({ schemes: 1 }), ['gateway.json $.openapi.schemes'])
  assert.deepEqual(places({}, [{ ...own, auth: 1 }]), [
    'gateway.json $.routes[0].auth',
    'gateway.json $.routes[0].path',
  ])
})

test('a schema that cannot be used is a fault only when requests are validated', () => {
  const schema = (value: object) =>
    api({ '/a': { post: { requestBody: { content: { 'application/json': { schema: value } } } } } })
  const at = /\$\.paths\["\/a"\]\.post\.requestBody\.content\["application\/json"\]\.schema: /
  for (const bad of [
    { type: 'strin' },
    { $ref: 'http://elsewhere/x.json' },
    { $ref: './x.json#/a' },
    { pattern: '(' },
  ]) {
    assert.deepEqual(read(schema(bad)).faults, [])
    assert.match(read(schema(bad), { validateRequests: true }).faults.join(), at)
  }
})

test('a pattern that no engine takes in bounded time is found when the document is read, or skipped where asked', () => {
  const at = '$.paths["/a"].post.requestBody.content["application/json"].schema'
  const document = (pattern: string) =>
    api({ '/a': { post: { requestBody: { content: { 'application/json': { schema: { pattern } } } } } } })
  const row = (validateRequests: string | boolean) => [
    { path: '/a', methods: ['POST'], auth: ['none'], validateRequests },
  ]
  for (const [pattern, reason] of [
    ['é?'.repeat(6000), 'is too large: with its repetitions written out it has more than 5000 parts'],
    ['(a{1000}){1000}', 'is too large: with its repetitions written out it has more than 5000 parts'],
    ['^(?:a(?=b)|c)+$', 'looks ahead ("(?="), which cannot be matched in bounded time'],
    ['^(a+)\\1$', 'refers back to a group ("\\1")'],
  ] as const) {
    const shown = pattern.length > 60 ? `${pattern.slice(0, 60)}…` : pattern
    const fault = `api.json: ${at}: cannot be used: the pattern "${shown}" ${reason}: write it another way, or set "validateRequests" to "skip-patterns"`
    assert.deepEqual(read(document(pattern)).faults, [])
    assert.deepEqual(read(document(pattern), { validateRequests: true }).faults, [fault])
    assert.deepEqual(read(document(pattern), { validateRequests: true }, row(true)).faults, [fault])
    assert.deepEqual(read(document(pattern), { validateRequests: true }, row('skip-patterns')).faults, [])
    assert.deepEqual(read(document(pattern), { validateRequests: 'skip-patterns' }).faults, [])
    assert.deepEqual(read(document(pattern), { validateRequests: 'skip-patterns' }, row(true)).faults, [
      fault,
    ])
  }
  assert.match(read(document('é?'.repeat(80_000)), { validateRequests: true }).faults.join(), /is too large/)
})

test('a pattern of another dialect without an exact equivalent is reported, and the document loads', () => {
  const schema = {
    allOf: [
      { pattern: '^\\h+$' },
      { pattern: '^a++$' },
      { pattern: '^[a-z ]+$' },
      { pattern: '^(?=a)(a+)\\1$' },
    ],
  }
  const post = { requestBody: { content: { 'application/json': { schema } } } }
  const document = api({ '/a': { post } })
  assert.match(read(document, { validateRequests: true }).faults.join(), /refers back/)
  const { settings, faults } = read(document, { validateRequests: 'skip-patterns' })
  assert.deepEqual(faults, [])
  assert.deepEqual(settings?.openapi?.skippedPatterns, [
    'the pattern "^\\h+$" has the escape "\\h", which ECMA-262 does not know',
    'the pattern "^a++$" is written in another dialect than ECMA-262',
    'the pattern "^(?=a)(a+)\\1$" refers back to a group ("\\1")',
  ])
  schema.allOf.pop()
  const strict = read(document, { validateRequests: true })
  assert.deepEqual(strict.faults, [])
  assert.equal(strict.settings?.openapi?.skippedPatterns.length, 2)
  assert.match(
    settingsWarnings(strict.settings!)[0] ?? '',
    /^api\.json: the pattern "\^\\h.*; it is not checked$/,
  )
})

test('a document that the validator refuses as a whole is a fault too', () => {
  const bodies = (one: object, other: object = {}) => ({
    '/a': { post: { requestBody: { content: { 'application/json': { schema: one } } } } },
    '/b': { post: { requestBody: { content: { 'application/json': { schema: other } } } } },
  })
  const draft = { $schema: 'http://json-schema.org/draft-07/schema#', type: 'object' }
  assert.deepEqual(read(api(bodies(draft)), { validateRequests: true }).faults, [])
  const named = bodies({ $id: '1', type: 'object' }, { $id: '1', type: 'array' })
  assert.match(
    read(api(named), { validateRequests: true }).faults.join(),
    /^api\.json: \$: cannot be used: reference "1" resolves to more than one schema/,
  )
})

test('a schema that applies itself to the same value is a fault', () => {
  const schemas = {
    Pet: { oneOf: [{ $ref: '#/components/schemas/Cat' }, { type: 'object' }] },
    Cat: { allOf: [{ $ref: '#/components/schemas/Pet' }, { type: 'object' }] },
    Tree: { type: 'object', properties: { of: { $ref: '#/components/schemas/Tree' } } },
  }
  const faults = (name: string) => {
    const content = { 'application/json': { schema: { $ref: `#/components/schemas/${name}` } } }
    const document = api({ '/a': { post: { requestBody: { content } } } }, { components: { schemas } })
    return read(document, { validateRequests: true }).faults.join()
  }
  assert.match(faults('Pet'), /schema: applies itself to the same value without end$/)
  assert.equal(faults('Tree'), '')
})

test('each operation with a schema that cannot be used is named', () => {
  const post = (schema: object) => ({
    post: { requestBody: { content: { 'application/json': { schema } } } },
  })
  const blamed = (document: object) =>
    read(document, { validateRequests: true }).faults.map((fault) => /paths\["(.*?)"\]/.exec(fault)?.[1])
  const document = api({ '/a': post({ type: 'strin' }), '/b': post({}), '/c': post({ pattern: '(' }) })
  assert.deepEqual(blamed(document), ['/a', '/c'])
  const properties = { a: { pattern: 'ā?'.repeat(20_000) }, b: { $ref: 'other.json' } }
  const broken = api({ '/a': post({ type: 'object', properties }), '/b': post({ type: 'object' }) })
  assert.deepEqual(blamed(broken), ['/a'])
})

test('a component that is no schema is a fault at its own place, told once', () => {
  const post = (name: string) => {
    const content = { 'application/json': { schema: { $ref: `#/components/schemas/${name}` } } }
    return { post: { requestBody: { content } } }
  }
  const faults = (schema: object) => {
    const schemas = {
      List: { type: 'array', items: { $ref: '#/components/schemas/Of%20it' } },
      Tree: { type: 'object', properties: { of: { $ref: '#/components/schemas/Tree' } } },
      'Of it': { anyOf: [{ $ref: '#/components/schemas/Bad' }, { $ref: '#/components/schemas/List' }] },
      Bad: schema,
    }
    const paths = { '/a': post('List'), '/b': post('List'), '/c': post('Tree') }
    return read(api(paths, { components: { schemas } }), { validateRequests: true }).faults
  }
  for (const [schema, reason] of [
    [{ required: [{ name: 'id' }] }, 'data/required/0 must be string'],
    [{ required: [{ toString: null }] }, 'data/required/0 must be string'],
    [[], 'data must be object,boolean'],
    [{ properties: { a: { minLength: -1 } } }, 'data/properties/a/minLength must be >= 0'],
  ] as const)
    assert.deepEqual(faults(schema), [`api.json: $.components.schemas.Bad: is not a valid schema: ${reason}`])
  assert.deepEqual(
    faults({ title: 1, description: null, deprecated: 'soon', definitions: { a: { type: 'b' } } }),
    [],
  )
})

test('an example may have the names that its serializer gave it, and a component may be called example', () => {
  const example = { one: { $id: '1', text: 'a' }, other: { $id: '1', number: 2 } }
  const content = {
    'application/json': { schema: { type: 'object', example }, examples: { a: { value: example } } },
  }
  const requestBodies = { example: { required: true, content } }
  const post = { requestBody: { $ref: '#/components/requestBodies/example' } }
  const document = api({ '/a': { post } }, { components: { requestBodies } })
  const { faults, settings } = read(document, { validateRequests: true })
  assert.deepEqual(faults, [])
  const kept = settings?.openapi?.document as { components?: { requestBodies?: Record<string, object> } }
  assert.deepEqual(kept.components?.requestBodies?.example, {
    required: true,
    content: { 'application/json': { schema: { type: 'object' } } },
  })
})

function readYamlApi(text: string) {
  const { value, faults } = parseGatewayFile('gateway.json', '{"openapi":"api.yaml"}', () => text)
  return { faults: faults?.map(describeFault) ?? [], rows: value?.routes }
}

test('a document in YAML is read like one in JSON, with its places', () => {
  const text = `# An API
openapi: 3.1.0
security: []
x-shared: &answers
  200: { description: yes }
paths:
  /a/{id}:
    get: { responses: *answers }
    post:
      responses: *answers
`
  const { rows, faults } = readYamlApi(text)
  assert.deepEqual(faults, [])
  assert.deepEqual(
    rows?.map(({ path, documentedAt }) => `${path} ${documentedAt}`),
    ['/a/{id} api.yaml#/paths/~1a~1{id}/get', '/a/{id} api.yaml#/paths/~1a~1{id}/post'],
  )
  assert.match(
    readYamlApi(text.replace('security: []\n', '')).faults.join('\n'),
    /\.get: does not say who may call it.* \(line 7\)\n.*\.post: .*\(line 8\)/,
  )
})

test('what is no YAML, or YAML that JSON cannot say, is a fault that names line and column', () => {
  const bomb = [...'abcdefghi'].map((name, index, names) => {
    const below = index === 0 ? 'x' : `*${names[index - 1]}`
    return `${name}: &${name} [${Array(8).fill(below).join(', ')}]\n`
  })
  const cases: [text: string, fault: RegExp][] = [
    ['openapi: 3.1.0\npaths: [', /^api\.yaml: line 2 column \d+: is not YAML/],
    ['openapi: 3.1.0\nopenapi: 3.1.0\n', /\$\.openapi: is written twice, on line 1 and again \(line 2\)/],
    ['a:\n  200: 1\n  "200": 2\n', /\$\.a\["200"\]: is written twice, on line 2 and again \(line 3\)/],
    [
      'a:\n  200: { b: 1 }\n  "200": { b: 2 }\n',
      /^(?!.*\.b: is written twice).*\["200"\]: is written twice/s,
    ],
    ['a:\n  b: 1\n  true: 1\n  "true": 2\n', /\$\.a\.true: is written twice, on line 3 and again \(line 4\)/],
    ['a: &a { 1: 1, "1": 1 }\nb: *a\n', /\$\.a\["1"\].*\n.*\$\.b\["1"\]/],
    ['a: 1\n---\nb: 1\n', /line 2 column 1: is not YAML: .*multiple documents/],
    ['a: !!binary aGk=\n', /line 1 column \d+: must be a value that JSON can have/],
    ['a: *b\n', /line 1 column 4: is an alias without its anchor: \*b/],
    ['a: &a { b: *a }\n', /must be nested at most 64 deep/],
    [bomb.join(''), /must have at most 250000 values/],
    [`a: ${'['.repeat(100_000)}`, /nested at most 64 deep|is not YAML/],
    ['a: &a { b: 1 }\nc:\n  <<: *a\n', /line 3 column 3: must not be "<<"/],
    ['? [a]\n: 1\n', /must have texts as keys/],
    ['a: .inf\n', /line 1 column 4: must be a value that JSON can have/],
    ['just text', /\$: must be an object/],
    ['__proto__: { openapi: 3.1.0 }', /must be a version/],
  ]
  for (const [text, fault] of cases)
    assert.match(readYamlApi(text).faults.join('\n'), fault, text.slice(0, 80))
})

test('a document in YAML is read in time that grows no faster than its longest map', () => {
  const text = Array.from({ length: 50_000 }, (_, index) => `key${index}: 1\n`).join('')
  const { user } = process.cpuUsage()
  assert.match(readYamlApi(text).faults.join(), /\$\.openapi: must be a version/)
  // To compare each key with each other key takes 20 s.
  assert.ok(process.cpuUsage().user - user < 10_000_000)
})

test('a file without rows and without a document is a fault', () => {
  const faults = (file: object) =>
    parseGatewayFile('g', JSON.stringify(file)).faults?.map(({ path, reason }) => `${path} ${reason}`)
  assert.deepEqual(faults({}), ['$.routes is missing'])
  assert.deepEqual(faults({ routes: [] }), ['$.routes must not be empty'])
  assert.match(faults({ openapi: '/nowhere/api.json' })?.join() ?? '', /^\$ cannot be read/)
})

test('an object in the place of a name, a scope or a version never ends the reading', () => {
  const odd = { toString: null }
  assert.match(read({ swagger: odd, paths: {} }).faults.join(), /that of Swagger \{"toString":null\}/)
  const security = [{ token: [odd] }]
  const securitySchemes = { token: { type: 'http', scheme: 'bearer' } }
  const document = api({ '/a': { get: { ...OPEN, security } } }, { components: { securitySchemes } })
  assert.deepEqual(read(document).routes, ['/a GET,HEAD bearer {"toString":null}'])
  const parameters = [{ in: 'query', name: odd, schema: { type: 'string' } }]
  assert.match(
    read(api({ '/a': { get: { ...OPEN, parameters } } }), { validateRequests: true }).faults.join(),
    /parameters\[0\]: must have a text as its name/,
  )
})
