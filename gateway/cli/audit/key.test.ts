import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { readSealKey } from '../../audit/seals/seal-key.ts'
import { formatVerifierKey } from '../../audit/seals/signed-note.ts'
import { prepareSeals } from '../../runtime/seal-trail.ts'
import type { StartupConfiguration } from '../../runtime/startup/read-configuration.ts'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import { countersign } from '../program.test-support.ts'

for (const origin of [undefined, 'audit.example.com/1']) {
  const which = origin === undefined ? 'without an origin' : `with the origin ${origin}`
  test(`the first start says how to see the verifier key, ${which}`, async (t) => {
    const dataDir = temporaryDirectory(t)
    const told: string[] = []
    const log = { info: (_: object, message: string) => told.push(message), warn: () => {} }
    const settings = { audit: { file: join(dataDir, 'audit.ndjson'), seals: 'on', origin }, dataDir }
    const start = () => prepareSeals({ settings, log } as unknown as StartupConfiguration)
    start()
    const [, words = ''] = /^a new key signs the seals: countersign (.*) prints/.exec(String(told[0])) ?? []
    const { stdout } = await countersign(words.split(' '))
    const { verifier } = readSealKey(join(dataDir, 'audit-seal-key.pem'), origin)
    assert.equal(stdout.split('\n')[0], formatVerifierKey(verifier), told.join('\n'))
    const count = told.length
    start()
    assert.equal(told.length, count)
  })
}

test('one key is made, and a second beside it only where --second asks for it', async (t) => {
  const directory = temporaryDirectory(t)
  const key = async (...words: string[]) => {
    const { status, stdout, stderr } = await countersign(['audit', 'key', ...words])
    return { status, keys: stdout.trimEnd().split('\n'), stderr }
  }
  const file = join(directory, 'seal.pem')
  const alone = await key(file)
  assert.deepEqual([alone.status, alone.keys.length, readdirSync(directory)], [0, 1, ['seal.pem']])
  assert.match((await key(file)).stderr, /seal\.pem is there already/)
  const both = await key('--second', file)
  assert.deepEqual([both.status, both.keys.length, both.keys[0]], [0, 2, alone.keys[0]])
  assert.deepEqual(readdirSync(directory), ['seal-ml-dsa-44.pem', 'seal.pem'])
  assert.match(both.stderr, /^\S+seal-ml-dsa-44\.pem is a private key: it stays with the gateway\n$/)
  const again = await key('--second', file)
  assert.match(again.stderr, /seal-ml-dsa-44\.pem are there already/)
  assert.equal(again.status, 1)
  assert.deepEqual((await key('--show', file)).keys, both.keys)
  const fresh = await key('--second', join(directory, 'new.pem'))
  assert.deepEqual([fresh.status, fresh.keys.length], [0, 2])
})
