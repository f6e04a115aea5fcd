import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseClients } from '../../config/clients/clients-file.ts'
import { answerJson, freshKey, NOW_MS, serve } from '../tokens/issuer.test-support.ts'
import { ClientKeys, clientKeyFaults } from './client-keys.ts'

const KEY = freshKey('one')
const OTHER = freshKey('two')

/** clients.json with one client, whose keys are at this place, and the files. */
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

test('keys of a file are there at once, and others once the table has changed', () => {
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

test('a file without a usable key is a fault; a key that is not usable is reported beside others', async () => {
  const bad = { ...KEY.jwk, crv: 'P-192', kid: 'bad' }
  const file = (...jwks: readonly object[]) => tableOf({ jwksFile: 'a' }, { a: { keys: jwks } })
  assert.deepEqual(clientKeyFaults('clients.json', file(KEY.jwk, bad)), [])
  for (const [table, reason] of [
    [file(), /^names a file without a usable key: it has none$/],
    [file(bad), /^names a file without a usable key: key "bad" left out: it is of a kind not accepted/],
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
  assert.match(faults.join(), /^bank: key "bad" left out/)
})
