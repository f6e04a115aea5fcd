import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { type ClientTable, parseClients } from '../../config/clients/clients-file.ts'
import { describeFault, type Fault } from '../../config/faults.ts'
import type { Settings } from '../../config/settings.ts'
import type { Limits } from '../../limits/table/limit-table.ts'
import { parseLimits } from '../../limits/table/limits-file.ts'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import { parseApart, rereadApart } from './parse-apart.ts'

function table(count: number): string {
  const limits = Array.from({ length: count }, (_, index) => ({
    path: `/api/${index}`,
    methods: ['GET'],
    limit: 5,
    window: '1m',
    purpose: 'Any',
  }))
  return JSON.stringify({ limits })
}

test('a small text is parsed in the same thread', async () => {
  const asked: string[] = []
  const parse = parseApart('limits', (file: string, text: string) => {
    asked.push(`${file} ${text}`)
    return { value: 7 }
  })
  assert.deepEqual(await parse('l.json', '{}'), { value: 7 })
  assert.deepEqual(asked, ['l.json {}'])
})

test('a large text is parsed by another thread, with the same result', async () => {
  const parse = parseApart<Limits>('limits', () => assert.fail('read in this thread'))
  const text = table(5000)
  const { value } = await parse('l.json', text)
  assert.deepEqual(value, parseLimits('l.json', text).value)
  assert.equal(value?.rows.length, 5000)
})

test('the faults of a large text come from the other thread, a hundred of them and how many more', async () => {
  const parse = parseApart<Limits>('limits', () => assert.fail('read in this thread'))
  const { faults } = await parse('l.json', table(5000).replaceAll('1m', '1y'))
  assert.equal(faults?.length, 101)
  assert.match(faults?.[0]?.reason ?? '', /^must be a whole number followed by s, m, h or d/)
  assert.deepEqual(faults?.[100], { file: 'l.json', path: '$', reason: 'has 4,900 more faults' })
})

test('a large table of clients comes with its secrets', async () => {
  process.env.PARSE_APART_SECRET = `whsec_${Buffer.from('0123456789abcdefghijklmnop').toString('base64')}`
  const clients = Array.from({ length: 500 }, (_, index) => ({
    id: `client-${index}`,
    scopes: ['accounts:read'],
    mtls: { sanUri: `urn:example:client:${index}` },
  }))
  const hmac = { keyId: 'key', secrets: [{ env: 'PARSE_APART_SECRET' }] }
  const text = JSON.stringify({ clients: [...clients, { id: 'last', hmac }] })
  const parse = parseApart<ClientTable>('clients', () => assert.fail('read in this thread'))
  const { value } = await parse('c.json', text)
  const expected = parseClients('c.json', text).value
  assert.deepEqual(value?.bySanUri, expected?.bySanUri)
  const [own, other] = [value, expected].map((one) => one?.byKeyId.get('key')?.secrets[0])
  assert.ok(own !== undefined && other !== undefined && own.equals(other))
})

test('a pattern that is too large is a fault in the other thread too', async (t) => {
  const folder = temporaryDirectory(t)
  const file = join(folder, 'api.json')
  const schema = { pattern: 'ā?'.repeat(20_000) }
  const post = { requestBody: { content: { 'application/json': { schema } } }, responses: {} }
  writeFileSync(file, JSON.stringify({ openapi: '3.1.0', security: [], paths: { '/a': { post } } }))
  const text = JSON.stringify({ openapi: { file, validateRequests: true } })
  const env = { GATEWAY_CONFIG: 'g.json' }
  const reread = await rereadApart({ env, running: { configFile: 'g.json' } as Settings, text })
  assert.match(reread.parsed.faults?.map(describeFault).join() ?? '', /the pattern "ā\?.*…" is too large/)
})

test('a thread that breaks off is a fault of the file, and says nothing of the files that it would have read', async () => {
  const running = { configFile: 'g.json' } as Settings
  const reread = await rereadApart({ env: null as never, running, text: '{"openapi":"api.json"}' })
  assert.match(
    describeFault(reread.parsed.faults?.[0] as Fault),
    /^g\.json: \$: cannot be read: Cannot read properties/,
  )
  assert.equal(reread.texts, undefined)
})

test('a thread that cannot be started is a fault of the file', async () => {
  // A function cannot be passed to a thread, and prevents its start, as too many threads do.
  const running = { configFile: 'g.json', upstreamSecret: () => {} } as unknown as Settings
  const reread = await rereadApart({ env: {}, running, text: '{"openapi":"api.json"}' })
  assert.match(
    describeFault(reread.parsed.faults?.[0] as Fault),
    /^g\.json: \$: cannot be read: .*could not be cloned/s,
  )
})
