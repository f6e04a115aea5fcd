import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { createRemoteJWKSet, decodeProtectedHeader, jwtVerify } from 'jose'
import { endExposure } from '../database/private-directory.ts'
import { prepareBackendDirectory } from '../testing/prepared-directory.ts'
import { type BackendProcess, startBackendProcess } from '../testing/process.ts'

const JSON_TYPE = { 'content-type': 'application/json' }
const MARKER = 'keys-exposed'

describe('signing keys that every user of the machine could read', () => {
  let directory: string
  let backend: BackendProcess | undefined
  before(async () => {
    directory = mkdtempSync(join(tmpdir(), 'exposed-'))
    await prepareBackendDirectory(join(directory, 'data'))
  })
  after(async () => {
    backend?.child.kill('SIGKILL')
    await backend?.ended
    rmSync(directory, { recursive: true, force: true })
  })

  async function start(): Promise<string> {
    backend?.child.kill('SIGTERM')
    await backend?.ended
    backend = startBackendProcess({ BACKEND_DATA_DIR: join(directory, 'data') })
    return backend.listening
  }

  async function tokenOf(url: string): Promise<string> {
    const body = JSON.stringify({ email: 'alice@example.com', password: 'demo-password' })
    const response = await fetch(`${url}/api/login`, { method: 'POST', headers: JSON_TYPE, body })
    return ((await response.json()) as { accessToken: string }).accessToken
  }

  async function publishedKids(url: string): Promise<string[]> {
    const response = await fetch(`${url}/.well-known/jwks.json`)
    return ((await response.json()) as { keys: { kid: string }[] }).keys.map(({ kid }) => kid)
  }

  function openAll(): void {
    for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
      chmodSync(join(entry.parentPath, entry.name), entry.isDirectory() ? 0o755 : 0o644)
    }
  }

  const warnings = () => JSON.stringify(backend?.log).match(/others could read the database/g)?.length ?? 0

  it('are replaced once at the next start, and no token fails for it', async () => {
    const first = await start()
    assert.equal(warnings(), 0)
    const token = await tokenOf(first)
    const old = String(decodeProtectedHeader(token).kid)
    const portalKeyFile = join(directory, 'data', 'bank-portal.private.jwk.json')
    const portalKey = readFileSync(portalKeyFile, 'utf8')
    assert.deepEqual(await publishedKids(first), [old])
    backend?.child.kill('SIGTERM')
    await backend?.ended
    openAll()

    const second = await start()
    assert.equal(warnings(), 1)
    const kids = await publishedKids(second)
    assert.equal(kids.length, 2)
    assert.equal(kids[0], old, 'the new key is published before it signs')
    assert.notEqual(
      readFileSync(portalKeyFile, 'utf8'),
      portalKey,
      'the key of the demo client is replaced too',
    )
    assert.equal(statSync(portalKeyFile).mode & 0o777, 0o600)
    await jwtVerify(token, createRemoteJWKSet(new URL(`${second}/.well-known/jwks.json`)))
    assert.equal(statSync(join(directory, 'data', 'cluster')).mode & 0o777, 0o700)
    // A third start would begin with this call.
    assert.equal(endExposure(join(directory, 'data')), false)
    assert.equal(existsSync(join(directory, 'data', MARKER)), false)
  })

  it('stay marked while an exposed key does not sign yet', async () => {
    backend?.child.kill('SIGTERM')
    await backend?.ended
    openAll()
    const url = await start()
    assert.equal(warnings(), 1)
    assert.equal((await publishedKids(url)).length, 2, 'no third key is made yet')
    assert.equal(existsSync(join(directory, 'data', MARKER)), true)
    await start()
    assert.equal(warnings(), 1, 'also after a restart')
    assert.equal(existsSync(join(directory, 'data', MARKER)), true)
  })
})
