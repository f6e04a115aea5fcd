import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { type LimitRow, type Limits, LimitTable, windowsOf } from './limit-table.ts'
import { limitFaults, parseLimits } from './limits-file.ts'

const ROW = { path: '/api/login', limit: 5, window: '1m', purpose: 'Slows down the guessing of passwords' }

function good(...limits: object[]): readonly LimitRow[] {
  const { value, faults } = parseLimits('limits.json', JSON.stringify({ limits }))
  assert.deepEqual(faults, undefined)
  assert.ok(value)
  return value.rows
}

function faults(...limits: unknown[]): string[] {
  const parsed = parseLimits('limits.json', JSON.stringify({ limits }))
  assert.ok(parsed.faults, 'no fault was found')
  return parsed.faults.map(({ path, reason }) => `${path}: ${reason}`)
}

function only(...limits: unknown[]): string {
  const [first, ...more] = faults(...limits)
  assert.deepEqual(more, [])
  return first ?? ''
}

test('a row gets every default', () => {
  assert.deepEqual(good(ROW), [
    {
      name: 'login',
      path: '/api/login',
      methods: undefined,
      limit: 5,
      window: '1m',
      windowMs: 60_000,
      purpose: 'Slows down the guessing of passwords',
      per: 'caller',
      mode: 'enforce',
      cost: 1,
      onStoreFailure: 'local',
    },
  ])
})

test('every key of a row arrives, GET with its HEAD', () => {
  const written = {
    name: 'x',
    cost: 2,
    methods: ['GET'],
    per: 'address',
    mode: 'shadow',
    onStoreFailure: 'deny',
  }
  const [row] = good({ ...ROW, ...written })
  assert.deepEqual(
    { ...row, ...ROW },
    { ...ROW, ...written, methods: new Set(['GET', 'HEAD']), windowMs: 60_000 },
  )
})

const SEVERAL = {
  path: '/api/transfer',
  purpose: 'Bounds what moves',
  windows: [
    { limit: 5, window: '1m' },
    { limit: 20, window: '1d' },
  ],
}

test('a row with windows is a list of them, each with a name of its own', () => {
  const [row] = good(SEVERAL)
  assert.deepEqual(
    row && windowsOf(row).map(({ name, limit, windowMs, path }) => [name, limit, windowMs, path]),
    [
      ['transfer-1m', 5, 60_000, '/api/transfer'],
      ['transfer-1d', 20, 86_400_000, '/api/transfer'],
    ],
  )
})

test('a wrong row with windows has a fault that names the key', () => {
  const [minute, day] = SEVERAL.windows
  const cases: [part: object, sentence: RegExp][] = [
    [{ limit: 5 }, /^\$\.limits\[0\]\.windows: must not stand beside "limit" and "window"/],
    [{ window: '1m' }, /^\$\.limits\[0\]\.windows: must not stand beside "limit" and "window"/],
    [{ cost: 6 }, /^\$\.limits\[0\]\.windows\[0\]\.limit: must be at least the "cost" 6, but is 5$/],
    [{ windows: [minute] }, /^\$\.limits\[0\]\.windows: must have at least 2 entries, but has 1$/],
    [{ windows: Array(5).fill(minute) }, /^\$\.limits\[0\]\.windows: must have at most 4 entries/],
    [{ windows: [minute, { limit: 5 }] }, /^\$\.limits\[0\]\.windows\[1\]\.window: is missing$/],
    [
      { windows: [minute, day, { limit: 9, window: '60s' }] },
      /^\$\.limits\[0\]\.windows\[2\]\.window: "60s" is as long as a window before it$/,
    ],
    [
      { windows: [minute, { limit: 9, window: '367d' }] },
      /^\$\.limits\[0\]\.windows\[1\]\.window: must be at most "366d", but is "367d"$/,
    ],
  ]
  for (const [part, sentence] of cases) assert.match(only({ ...SEVERAL, ...part }), sentence)
})

test('no name of a window is the name of another row or window', () => {
  const sentence = (name: string) =>
    `$.limits[1].name: "${name}" is also the name of $.limits[0]: give this row a "name"`
  assert.equal(only(SEVERAL, { ...ROW, name: 'transfer-1d' }), sentence('transfer-1d'))
  assert.equal(only({ ...ROW, name: 'transfer-1d' }, SEVERAL), sentence('transfer-1d'))
  assert.equal(only(SEVERAL, { ...SEVERAL, path: '/x', name: 'transfer' }), sentence('transfer'))
  assert.equal(only(SEVERAL, { ...ROW, name: 'transfer' }), sentence('transfer'))
  assert.equal(good(SEVERAL, { ...ROW, name: 'transfer-1h' }).length, 2)
})

test('a template is checked like a template of a route, and its requests count together', () => {
  assert.match(only({ ...ROW, path: '/x/{a}/{a}' }), /^\$\.limits\[0\]\.path: must not have "\{a\}" twice$/)
  const again = { ...ROW, path: '/x/{b}', name: 'again' }
  assert.match(
    only({ ...ROW, path: '/x/{a}' }, again),
    /^\$\.limits\[1\]\.path: "\/x\/\{b\}" is also the path of/,
  )
  const [row] = good({ ...ROW, path: '/x/{a}' })
  const table = new LimitTable(row === undefined ? [] : [row])
  assert.deepEqual([table.find('/x/1', 'GET'), table.find('/X/2/', 'GET')], [row, row])
  assert.equal(table.find('/x/1/y', 'GET'), undefined)
})

test('a plan has a name and a factor, under which no limit is less than the cost', () => {
  const parsed = (plans: object, cost = 1, per = 'caller') =>
    parseLimits('l', JSON.stringify({ limits: [{ ...ROW, limit: 10, cost, per }], plans }))
  assert.deepEqual(parsed({ gold: { factor: 5 } }).value?.plans, new Map([['gold', 5]]))
  const faultOf = (...asked: Parameters<typeof parsed>) =>
    parsed(...asked).faults?.map(({ path, reason }) => `${path}: ${reason}`)
  assert.deepEqual(faultOf({ iron: { factor: 0.5 }, gold: { factor: 5 } }, 6), [
    '$.limits[0].limit: must be at least the "cost" 6 under each plan, but is 5 under "iron"',
  ])
  assert.equal(faultOf({ iron: { factor: 0.5 } }, 6, 'user'), undefined)
  assert.match(faultOf({ iron: { factor: 0 } })?.join() ?? '', /^\$\.plans\.iron\.factor: must be/)
  assert.match(faultOf({ iron: {} })?.join() ?? '', /^\$\.plans\.iron\.factor: is missing$/)
  assert.match(faultOf({ ' ': { factor: 1 } })?.join() ?? '', /\$\.plans.*must have names that are 1 to 64/)
})

test('what does not fit the other files is a fault that names what to do', () => {
  const limits = { rows: good(ROW), plans: new Map([['gold', 5]]) }
  const client = (plan?: string) => ({ id: 'a', scopes: [], ...(plan && { plan }) })
  const clientsFile = 'clients.json'
  const alone = { clientsFile, store: undefined }
  assert.deepEqual(limitFaults('limits.json', limits, alone, [client(), client('gold'), client('tin')]), [
    { file: 'clients.json', path: '$.clients[2].plan', reason: 'names no plan of limits.json: "tin"' },
  ])
  const faultOf = (settings: object, more: Partial<Limits> = {}) =>
    limitFaults('l', { ...limits, ...more }, { ...alone, ...settings }, []).map(
      ({ path, reason }) => path + reason,
    )
  assert.match(
    faultOf({ clientsFile: undefined }).join(),
    /^\$\.plans.*clients\.json is not read: set GATEWAY_CLIENTS/,
  )
  assert.deepEqual(faultOf({ clientsFile: undefined }, { plans: new Map() }), [])
  const overall = { rows: limits.rows.map((row) => ({ ...row, isOverall: true as const })) }
  for (const [kind, faults] of [
    ['cluster', 1],
    ['sentinel', 0],
  ] as const)
    assert.equal(faultOf({ store: { kind } }, overall).length, faults)
  assert.deepEqual(faultOf({ store: { kind: 'cluster' } }), [])
})

test('rows of overall are checked as the others are, and have names of their own', () => {
  const parsed = (overall: unknown, ...limits: unknown[]) =>
    parseLimits('l', JSON.stringify({ limits, overall }))
  const [row, beside] = parsed([{ ...SEVERAL, path: '/*', name: 'quota' }], ROW).value?.rows ?? []
  assert.deepEqual([row?.isOverall, beside?.isOverall, beside?.next?.name], [undefined, true, 'quota-1d'])
  const faultOf = (...asked: Parameters<typeof parsed>) =>
    parsed(...asked).faults?.map(({ path, reason }) => `${path}: ${reason}`)
  assert.deepEqual(faultOf([ROW], ROW), [
    '$.overall[0].name: "login" is also the name of $.limits[0]: give this row a "name"',
  ])
  assert.match(
    faultOf([{ ...ROW, cost: 9 }])?.join() ?? '',
    /^\$\.overall\[0\]\.limit: must be at least the "cost" 9/,
  )
  assert.match(
    faultOf([ROW, ROW])?.[0] ?? '',
    /^\$\.overall\[1\]\.path: .* is also the path of \$\.overall\[0\]/,
  )
  assert.match(faultOf({})?.join() ?? '', /^\$\.overall: must be an array/)
})

test('an empty table limits nothing', () => {
  assert.deepEqual(good(), [])
})

test('a window is a whole number of seconds, minutes, hours or days', () => {
  const windows = { '1s': 1000, '90s': 90_000, '15m': 900_000, '1h': 3_600_000, '1d': 86_400_000 }
  for (const [window, windowMs] of Object.entries(windows))
    assert.equal(good({ ...ROW, window })[0]?.windowMs, windowMs)
})

test('a window of anything else, or longer than 366 days, is a fault that shows the value', () => {
  for (const window of ['', '0s', '1', 's', '01m', '1.5h', '-1m', '1 m', '1M', '1w', '1ms', '1m\n']) {
    const sentence = only({ ...ROW, window })
    assert.match(sentence, /^\$\.limits\[0\]\.window: must be a whole number followed by s, m, h or d/)
    const said = sentence.replace(/; did you mean "\d+[smhd]"\?$/, '')
    assert.ok(said.endsWith(`but is ${JSON.stringify(window)}`), sentence)
  }
  assert.equal(good({ ...ROW, window: '366d' })[0]?.windowMs, 366 * 86_400_000)
  assert.equal(only({ ...ROW, window: '367d' }), '$.limits[0].window: must be at most "366d", but is "367d"')
  assert.match(only({ ...ROW, window: `${'9'.repeat(400)}s` }), /must be at most "366d"/)
})

test('each key of a row refuses what is not of its kind, by its path', () => {
  const cases: [part: object, sentence: RegExp][] = [
    [{ path: undefined }, /^\$\.limits\[0\]\.path: is missing/],
    [{ path: 'login' }, /^\$\.limits\[0\]\.path: must begin with "\/"/],
    [{ path: '/a b' }, /^\$\.limits\[0\]\.path: must not hold " "/],
    [{ limit: undefined }, /^\$\.limits\[0\]\.limit: is missing/],
    [{ limit: 0 }, /^\$\.limits\[0\]\.limit: must be between 1 and 1000000000, but is 0/],
    [{ limit: 1_000_000_001 }, /^\$\.limits\[0\]\.limit: must be between 1 and 1000000000/],
    [{ limit: 2.5 }, /^\$\.limits\[0\]\.limit: must be a whole number, but is 2\.5/],
    [{ cost: 0 }, /^\$\.limits\[0\]\.cost: must be between 1 and 1000, but is 0/],
    [{ cost: 6 }, /^\$\.limits\[0\]\.limit: must be at least the "cost" 6, but is 5$/],
    [{ limit: '5' }, /^\$\.limits\[0\]\.limit: must be a whole number, but is "5"/],
    [{ window: undefined }, /^\$\.limits\[0\]\.window: is missing/],
    [{ window: 60 }, /^\$\.limits\[0\]\.window: must be text, but is 60/],
    [{ purpose: undefined }, /^\$\.limits\[0\]\.purpose: is missing/],
    [{ purpose: '' }, /^\$\.limits\[0\]\.purpose: must not be empty/],
    [{ purpose: '   ' }, /^\$\.limits\[0\]\.purpose: must be one line of printable text/],
    [{ purpose: 'a\nb' }, /^\$\.limits\[0\]\.purpose: must be one line of printable text/],
    [{ purpose: 'a\u202Eb' }, /^\$\.limits\[0\]\.purpose: must be one line of printable text/],
    [{ purpose: 'a\u2028b' }, /^\$\.limits\[0\]\.purpose: must be one line of printable text/],
    [
      { purpose: 'x'.repeat(201) },
      /^\$\.limits\[0\]\.purpose: must have at most 200 characters, but has 201/,
    ],
    [{ name: 'a"b' }, /^\$\.limits\[0\]\.name: must be 1 to 64 characters/],
    [{ name: '' }, /^\$\.limits\[0\]\.name: must be 1 to 64 characters/],
    [{ name: 'x'.repeat(65) }, /^\$\.limits\[0\]\.name: must be 1 to 64 characters/],
    [{ methods: [] }, /^\$\.limits\[0\]\.methods: must not be empty/],
    [{ methods: 'GET' }, /^\$\.limits\[0\]\.methods: must be an array, but is "GET"/],
    [{ methods: ['get'] }, /^\$\.limits\[0\]\.methods\[0\]: .*did you mean "GET"\?/],
    [
      { per: 'app' },
      /^\$\.limits\[0\]\.per: must be "caller", "user", "client", "client\+user" or "address", but is "app"$/,
    ],
    [
      { per: 'principal' },
      /^\$\.limits\[0\]\.per: must be "caller", "user", "client", "client\+user" or "address", but is "principal"; it was removed: write "caller", which means the same$/,
    ],
    [{ mode: 'Shadow' }, /^\$\.limits\[0\]\.mode: .*did you mean "shadow"\?/],
    [{ onStoreFailure: 'open' }, /^\$\.limits\[0\]\.onStoreFailure: must be "local", "deny" or "allow"/],
    [
      { window: undefined, windw: '1m' },
      /^\$\.limits\[0\]\.windw: is not a known key; did you mean "window"\?/,
    ],
  ]
  for (const [part, sentence] of cases) assert.match(only({ ...ROW, ...part }), sentence)
})

test('a purpose may be written in any language', () => {
  assert.equal(good({ ...ROW, purpose: 'Bremst das Erraten von Passwörtern – 守る' }).length, 1)
})

test('a row is called by its name, or else by the last literal segment of its path', () => {
  const names = {
    '/api/login': 'login',
    '/api/users/*': 'users',
    '/*': 'all',
    '/': 'root',
    '/a/b/': 'b',
    '/v1.2': 'v1.2',
    '/users/{id}': 'users',
    '/users/{id}/cards': 'cards',
  }
  for (const [path, name] of Object.entries(names)) assert.equal(good({ ...ROW, path })[0]?.name, name)
  assert.equal(good({ ...ROW, name: 'sign-in' })[0]?.name, 'sign-in')
})

test('a path whose last segment cannot be a name asks for one', () => {
  const path = '/caf%C3%A9'
  assert.equal(
    only({ ...ROW, path }),
    '$.limits[0].name: is missing, and the path\'s last segment "caf%C3%A9" cannot be used for it',
  )
  assert.equal(good({ ...ROW, path, name: 'cafe' }).length, 1)
})

test('two rows with one name, made or written, are a fault that asks for a name', () => {
  const other = { ...ROW, path: '/admin/login' }
  const sentence = '$.limits[1].name: "login" is also the name of $.limits[0]: give this row a "name"'
  assert.equal(only(ROW, other), sentence)
  assert.equal(only(ROW, { ...other, path: '/x', name: 'login' }), sentence)
  assert.equal(good(ROW, { ...other, name: 'admin-login' }).length, 2)
})

test('two rows for one path must not share a method', () => {
  const get = { ...ROW, name: 'read', methods: ['GET'] }
  const sentence = /^\$\.limits\[1\]\.path: "\/api\/login" is also the path of \$\.limits\[0\]/
  assert.match(only(ROW, ROW), sentence)
  assert.match(only(get, { ...get, name: 'again', methods: ['HEAD'] }), sentence)
  assert.equal(good(get, { ...get, name: 'write', methods: ['POST'] }).length, 2)
})

test('two rows must not differ only in letter case or a closing slash, whatever their methods', () => {
  for (const path of ['/API/login', '/api/login/']) {
    const other = { ...ROW, path, name: 'again', methods: ['PUT'] }
    assert.match(only({ ...ROW, methods: ['GET'] }, other), /^\$\.limits\[1\]\.path: .* only in letter case/)
  }
})

test('all faults come at once, one for each cause', () => {
  const found = faults({ ...ROW, limit: 0, window: '1w' }, null, { ...ROW, path: '/A/../b', purpose: 1 }, ROW)
  assert.deepEqual(
    found.map((sentence) => sentence.replace(/: .*/, '')),
    [
      '$.limits[0].limit',
      '$.limits[0].window',
      '$.limits[1]',
      '$.limits[2].purpose',
      '$.limits[2].path',
      '$.limits[3].path',
    ],
  )
})

test('a large table with a fault in every row is refused in time that grows no faster than the table', () => {
  const rows = Array.from({ length: 5000 }, (_, index) => ({ ...ROW, path: `/x/a${index}`, limit: 0 }))
  const before = process.cpuUsage()
  assert.equal(faults(...rows).length, 101)
  // When each was compared with each, 10,000 rows for one path took 7 s.
  const alike = rows.map((row, index) => ({ ...row, path: '/x', name: `n${index}` }))
  assert.equal(faults(...alike).length, 101)
  // When each fault was looked up in all rows, 10,000 faults in 10,000 rows took a minute.
  assert.ok(process.cpuUsage(before).user < 5_000_000)
})

test('a file without a list of limits has one fault', () => {
  for (const text of ['', 'null', '[]', '{}', '{"limits":{}}', '{"limitz":[]}']) {
    assert.equal(parseLimits('limits.json', text).faults?.length, 1, text)
  }
})

test('the table that comes with the gateway holds the limits of the service, and two by address', () => {
  const text = readFileSync(new URL('../../../config/limits.json', import.meta.url), 'utf8')
  const rows = parseLimits('limits.json', text).value?.rows
  assert.deepEqual(
    rows?.map(({ name, path, limit, windowMs, per }) => [name, path, limit, windowMs, per]),
    [
      ['login', '/api/login', 5, 60_000, 'caller'],
      ['transfer', '/api/transfer', 10, 3_600_000, 'caller'],
      ['balance', '/api/balance', 60, 60_000, 'caller'],
      ['verify', '/api/verify', 3, 86_400_000, 'caller'],
      ['refresh', '/api/session/refresh', 60, 60_000, 'address'],
      ['oauth', '/oauth/*', 120, 60_000, 'address'],
    ],
  )
  const example = readFileSync(
    new URL('../../../config/examples/any-service-limits.json', import.meta.url),
    'utf8',
  )
  assert.equal(parseLimits('any', example).value?.rows.length, 1)
})
