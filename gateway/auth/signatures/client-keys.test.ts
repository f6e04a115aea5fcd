import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseClients } from '../../config/clients/clients-file.ts'
import { answerJson, freshKey, NOW_MS, serve } from '../tokens/issuer.test-support.ts'
import { ClientKeys, clientKeyFaults } from './client-keys.ts'

const KEY = freshKey('one')
const OTHER = freshKey('two')

/** The table of a clients.json with one client. @param keys the place of its keys */
function tableOf(keys: object, files: Readonly<Record<string, unknown>> = {}) {
  const text = JSON.stringify({ clients: [{ id: 'bank', signature: { profile: 'fapi-2', ...keys } }] })
  const readFile = (file: string) => JSON.stringify(files[file])
  const { value, faults } = parseClients('clients.json', text, { env: {}, readFile })
  assert.deepEqual(faults, undefined)
  return value!
}

const makeKeys = (faults: string[] = []) =>
  new ClientKeys({
    clock: () => NOW_MS,
    onFault: (client, _uri, cause) => faults.push(`${client}: ${cause}`),
  })

test('keys of a file are there at once, and change with the table', () => {
  const keys = makeKeys()
  keys.replace(tableOf({ jwksFile: 'a' }, { a: { keys: [KEY.jwk] } }).signers)
  assert.ok(keys.of('bank')?.keys.find('one'))
  keys.replace(tableOf({ jwksFile: 'a' }, { a: { keys: [OTHER.jwk] } }).signers)
  assert.deepEqual([keys.of('bank')?.keys.find('one'), keys.all.length], [undefined, 1])
  assert.ok(keys.of('bank')?.keys.find('two'))
  keys.replace(new Map())
  assert.deepEqual([keys.of('bank'), keys.of(undefined), keys.all], [undefined, undefined, []])
})

test('keys of an address are fetched from the start on, and kept while the address stays', async (t) => {
  const { uri, requests } = await serve(t, answerJson({ keys: [KEY.jwk] }))
  const table = tableOf({ jwksUri: uri })
  const keys = makeKeys()
  t.after(() => keys.stop())
  keys.replace(table.signers)
  assert.equal(keys.of('bank')?.keys.loaded, false)
  keys.start()
  const { keys: set } = keys.of('bank')!
  while (!set.loaded) await set.refresh()
  keys.replace(tableOf({ jwksUri: uri, profile: 'fapi-2' }).signers)
  assert.equal(keys.of('bank')?.keys, set)
  const other = await serve(t, answerJson({ keys: [OTHER.jwk] }))
  keys.replace(tableOf({ jwksUri: other.uri }).signers)
  const { keys: next } = keys.of('bank')!
  while (!next.loaded) await next.refresh()
  assert.ok(next.find('two'))
  assert.ok(requests() >= 1)
})

test('for a name that nobody has, the keys of at most eight clients are fetched, once in ten seconds', async (t) => {
  const { uri, requests } = await serve(t, answerJson({ keys: [KEY.jwk] }))
  let nowMs = NOW_MS
  const keys = new ClientKeys({ clock: () => nowMs, onFault: assert.fail })
  const clients = Array.from({ length: 10 }, (_, index) => ({
    id: `client-${index}`,
    signature: { profile: 'fapi-2', jwksUri: `${uri}/${index}` },
  }))
  keys.replace(parseClients('clients.json', JSON.stringify({ clients })).value!.signers)
  assert.deepEqual(keys.ownersOf('one'), [])
  await Promise.all([keys.refresh(), keys.refresh()])
  await keys.refresh()
  assert.equal(requests(), 8)
  assert.equal(keys.ownersOf('one').length, 8)
  nowMs += 10_000
  await keys.refresh()
  // The two clients that were not asked yet come first.
  assert.equal(keys.ownersOf('one').length, 10)
  assert.equal(requests(), 16)
  assert.ok(keys.ownersOf('one').every(({ signer, rival }) => rival !== undefined && rival !== signer))
})

test('clients whose keys cannot be fetched delay the keys of others by one round only', async (t) => {
  const broken = await serve(t, (_req, res) => res.writeHead(500).end())
  const { uri } = await serve(t, answerJson({ keys: [KEY.jwk] }))
  let nowMs = NOW_MS
  const keys = new ClientKeys({ clock: () => nowMs, onFault: () => {} })
  const clients = Array.from({ length: 9 }, (_, index) => ({
    id: `client-${index}`,
    signature: { profile: 'fapi-2', jwksUri: index < 8 ? `${broken.uri}/${index}` : uri },
  }))
  keys.replace(parseClients('clients.json', JSON.stringify({ clients })).value!.signers)
  await keys.refresh()
  nowMs += 10_000
  await keys.refresh()
  assert.equal(keys.ownersOf('one')[0]?.signer.principal.client, 'client-8')
})

test('the owners of a name change with the keys and with the table', async (t) => {
  const server = await serve(t, answerJson({ keys: [KEY.jwk] }))
  let nowMs = NOW_MS
  const keys = new ClientKeys({ clock: () => nowMs, onFault: assert.fail })
  keys.replace(tableOf({ jwksUri: server.uri }).signers)
  const ownersOf = (kid: string) =>
    keys.ownersOf(kid).map(({ signer, rival }) => [signer.principal.client, rival])
  await keys.refresh()
  assert.deepEqual([ownersOf('one'), ownersOf('two')], [[['bank', undefined]], []])
  server.answer = answerJson({ keys: [OTHER.jwk] })
  nowMs += 10_000
  await keys.refresh()
  assert.deepEqual([ownersOf('one'), ownersOf('two')], [[], [['bank', undefined]]])
  keys.replace(tableOf({ jwksFile: 'a' }, { a: { keys: [KEY.jwk, OTHER.jwk] } }).signers)
  assert.deepEqual([ownersOf('one').length, ownersOf('two').length], [1, 1])
  keys.replace(new Map())
  assert.deepEqual([ownersOf('one'), keys.only, keys.forms.length], [[], undefined, 1])
})

test('a key that two clients publish has a rival until one of them gives it up, also when it is in a file', async (t) => {
  const server = await serve(t, answerJson({ keys: [{ ...KEY.jwk, kid: 'mine' }] }))
  const own = await serve(t, answerJson({ keys: [KEY.jwk] }))
  let nowMs = NOW_MS
  const keys = new ClientKeys({ clock: () => nowMs, onFault: assert.fail })
  const replace = (place: object) => {
    const clients = [
      { id: 'mallory', signature: { profile: 'fapi-2', jwksUri: server.uri } },
      { id: 'bank', signature: { profile: 'fapi-2', ...place } },
    ]
    const readFile = () => JSON.stringify({ keys: [KEY.jwk] })
    const text = JSON.stringify({ clients })
    keys.replace(parseClients('clients.json', text, { env: {}, readFile }).value!.signers)
  }
  replace({ jwksUri: own.uri })
  const rivalOf = (kid: string) => keys.ownersOf(kid)[0]?.rival?.principal.client
  await keys.of('bank')?.keys.refresh()
  assert.equal(rivalOf('one'), undefined)
  await keys.refresh()
  assert.deepEqual([rivalOf('one'), rivalOf('mine')], ['mallory', 'bank'])
  // A file is no proof either that the key is the client's own.
  replace({ jwksFile: 'a' })
  assert.deepEqual([rivalOf('one'), rivalOf('mine')], ['mallory', 'bank'])
  replace({ jwksUri: own.uri })
  server.answer = answerJson({ keys: [{ ...OTHER.jwk, kid: 'mine' }] })
  nowMs += 10_000
  await keys.refresh()
  assert.deepEqual([rivalOf('one'), rivalOf('mine'), keys.ownersOf('mine').length], [undefined, undefined, 1])
})

test('of the owners of a name those with a file come first, then those who come first in clients.json', async (t) => {
  const { uri } = await serve(t, answerJson({ keys: [KEY.jwk] }))
  const clients = ['a', 'b', 'file', 'c'].map((id) => ({
    id,
    signature: { profile: 'fapi-2', ...(id === 'file' ? { jwksFile: id } : { jwksUri: `${uri}/${id}` }) },
  }))
  const readFile = () => JSON.stringify({ keys: [{ ...OTHER.jwk, kid: 'one' }] })
  const keys = makeKeys()
  const text = JSON.stringify({ clients })
  keys.replace(parseClients('clients.json', text, { env: {}, readFile }).value!.signers)
  for (const id of ['c', 'b', 'a']) await keys.of(id)?.keys.refresh()
  assert.deepEqual(
    keys.ownersOf('one').map(({ signer }) => signer.principal.client),
    ['file', 'a', 'b', 'c'],
  )
})

test('a file without a usable key is a fault; a key that is not usable is reported beside others', async () => {
  const bad = { ...KEY.jwk, crv: 'P-192', kid: 'bad' }
  const file = (...jwks: readonly object[]) => tableOf({ jwksFile: 'a' }, { a: { keys: jwks } })
  assert.deepEqual(clientKeyFaults('clients.json', file(KEY.jwk, bad)), [])
  for (const [table, reason] of [
    [file(), /^names a file without a usable key: it has none$/],
    [file(bad), /^names a file without a usable key: key "bad" is left out: it is of a kind not accepted/],
  ] as const) {
    const [fault] = clientKeyFaults('clients.json', table)
    assert.equal(fault?.path, '$.clients[0].signature.jwksFile')
    assert.match(fault.reason, reason)
  }
  const faults: string[] = []
  const keys = makeKeys(faults)
  keys.replace(file(KEY.jwk, bad).signers)
  keys.start()
  await keys.of('bank')?.keys.refresh()
  keys.stop()
  assert.match(faults.join(), /^bank: key "bad" is left out/)
})
