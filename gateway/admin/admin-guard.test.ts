import assert from 'node:assert/strict'
import { it } from 'node:test'
import { type AdminAccess, AdminGuard } from './admin-server.ts'

const TOKEN = 't'.repeat(32)
const open = new AdminGuard({ names: ['Gateway-1', 'fd00::7'], token: undefined })
const guarded = new AdminGuard({ names: ['gateway-1'], token: TOKEN })
const BEARER = { authorization: `Bearer ${TOKEN}` }

function statusOf(
  guard: AdminGuard,
  headers: Record<string, string>,
  access: AdminAccess = 'operator',
  method = 'GET',
): number {
  return guard.refuse({ method, headers }, access)?.status ?? 200
}

it('lets in an IP address, localhost and the names of the listener, with any port', () => {
  for (const host of [
    '127.0.0.1:9090',
    '10.1.2.3',
    '[::1]:1',
    '[fd00::1]',
    'localhost:80',
    'LOCALHOST',
    'gateway-1:9090',
    'GATEWAY-1',
  ]) {
    assert.equal(statusOf(open, { host }), 200, host)
    assert.equal(statusOf(open, { host }, 'page'), 200, host)
  }
})

it('refuses every other name: a page can point its own name at us (DNS rebinding)', () => {
  for (const host of [
    'evil.example',
    'evil.example:9090',
    'localhost.evil.example',
    'gateway-1.evil.example',
    '127.0.0.1.nip.io',
    '127.1',
    '0x7f000001',
    '[::1]x',
    '[gateway-1]',
    '127.0.0.1:9090:1',
    'user@127.0.0.1',
    '::1',
    '',
  ]) {
    assert.equal(statusOf(open, { host }), 421, host)
    assert.equal(statusOf(open, { host }, 'page'), 421, host)
  }
  assert.equal(statusOf(open, {}), 421)
})

it('lets a load balancer probe by any name', () => {
  for (const guard of [open, guarded])
    assert.equal(statusOf(guard, { host: 'evil.example', origin: 'null' }, 'anyone'), 200)
})

it('refuses what another page sends, even with the token', () => {
  const host = 'localhost:9090'
  const foreign = [
    { origin: 'http://evil.example' },
    { origin: 'null' },
    { origin: 'http://localhost:8080' },
    { origin: 'http://localhost' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' },
  ]
  for (const fields of foreign) {
    assert.equal(statusOf(open, { host, ...fields }), 403, JSON.stringify(fields))
    assert.equal(statusOf(guarded, { host, ...BEARER, ...fields }, 'operator', 'POST'), 403)
  }
  for (const fields of [
    { origin: 'http://localhost:9090' },
    { origin: 'https://LOCALHOST:9090', 'sec-fetch-site': 'same-origin' },
    { 'sec-fetch-site': 'none' },
  ])
    assert.equal(statusOf(open, { host, ...fields }, 'operator', 'POST'), 200, JSON.stringify(fields))
})

it('lets a person follow a link to a page of the console, but lets no other site embed that page', () => {
  const link = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' }
  assert.equal(statusOf(open, { host: 'localhost', ...link }, 'page'), 200)
  assert.equal(statusOf(open, { host: 'localhost', ...link, 'sec-fetch-dest': 'iframe' }, 'page'), 403)
  assert.equal(statusOf(open, { host: 'localhost', ...link, 'sec-fetch-mode': 'no-cors' }, 'page'), 403)
  assert.equal(statusOf(open, { host: 'localhost', ...link }, 'page', 'POST'), 403)
})

it('asks operators for the token, and accepts any host name with it', () => {
  const host = 'localhost'
  const challenge = (headers: Record<string, string>) =>
    guarded.refuse({ method: 'GET', headers: { host, ...headers } }, 'operator')
  assert.deepEqual(challenge({})?.headers, ['WWW-Authenticate', 'Bearer realm="countersign admin"'])
  for (const authorization of [
    `Bearer ${TOKEN}x`,
    `Bearer ${TOKEN.slice(1)}`,
    `Bearer ${TOKEN} ${TOKEN}`,
    `Basic ${TOKEN}`,
    TOKEN,
    'Bearer ',
  ])
    assert.equal(challenge({ authorization })?.status, 401, authorization)
  assert.match(String(challenge({ authorization: 'Bearer x' })?.headers), /error="invalid_token"/)
  assert.equal(statusOf(guarded, { host, ...BEARER }), 200)
  assert.equal(statusOf(guarded, { host, authorization: `bearer  ${TOKEN} ` }), 200)
  // Prometheus uses whatever name it finds. A made-up name is a danger only from a foreign page, which lacks the token.
  assert.equal(statusOf(guarded, { host: 'gateway.monitoring.svc:9090', ...BEARER }), 200)
  assert.equal(statusOf(guarded, { host }, 'page'), 200)
})

it('a new token replaces the old one', () => {
  const guard = new AdminGuard({ names: [], token: TOKEN })
  const next = 'n'.repeat(40)
  guard.replaceToken(next)
  assert.equal(statusOf(guard, { host: 'localhost', ...BEARER }), 401)
  assert.equal(statusOf(guard, { host: 'localhost', authorization: `Bearer ${next}` }), 200)
})
