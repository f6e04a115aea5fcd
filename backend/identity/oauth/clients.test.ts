import assert from 'node:assert/strict'
import { linkSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { Database } from '../../database/database.ts'
import { migrate } from '../../database/migrations.ts'
import { openTestPglite } from '../../testing/databases.ts'
import { startTestService } from '../../testing/service.ts'
import { loadServerSecrets } from '../secrets.ts'
import { loadClients } from './clients.ts'

describe('loadClients', () => {
  let dataDirectory: string
  let database: Database
  before(async () => {
    database = await openTestPglite()
    await migrate(database)
    dataDirectory = mkdtempSync(join(tmpdir(), 'clients-'))
  })
  after(async () => {
    await database.close()
    rmSync(dataDirectory, { recursive: true })
  })

  function file(content: string): string {
    const path = join(dataDirectory, 'clients.json')
    writeFileSync(path, content)
    return path
  }

  it('has two clients for the demo, and none without', async () => {
    assert.deepEqual(await loadClients({ file: undefined, demo: false, dataDirectory, database }), [])
    const clients = await loadClients({ file: undefined, demo: true, dataDirectory, database })
    assert.deepEqual(
      clients.map(({ client_id }) => client_id),
      ['mobile-app', 'bank-portal'],
    )
    assert.doesNotMatch(String(clients[0]?.scope), /users:admin/)
  })

  it('makes the key of bank-portal once, readable for its owner only, and registers its public half', async () => {
    const [, portal] = await loadClients({ file: undefined, demo: true, dataDirectory, database })
    const [, again] = await loadClients({ file: undefined, demo: true, dataDirectory, database })
    assert.deepEqual(again, portal)
    const path = join(dataDirectory, 'bank-portal.private.jwk.json')
    assert.equal(statSync(path).mode & 0o777, 0o600)
    const { d } = JSON.parse(readFileSync(path, 'utf8'))
    assert.ok(d)
    assert.ok(!JSON.stringify(portal).includes(d))
    writeFileSync(path, '{')
    const broken = loadClients({ file: undefined, demo: true, dataDirectory, database })
    await assert.rejects(broken, /bank-portal\.private\.jwk\.json is no key/)
    rmSync(path)
  })

  it('loads the demo clients in backends that start together in one directory', async () => {
    const shared = mkdtempSync(join(tmpdir(), 'clients-'))
    const load = () => loadClients({ file: undefined, demo: true, dataDirectory: shared, database })
    const [first, ...others] = await Promise.all([load(), load(), load()])
    for (const other of others) assert.deepEqual(other, first)
    assert.deepEqual(readdirSync(shared), ['bank-portal.private.jwk.json'])
    rmSync(shared, { recursive: true })
  })

  it('gives all backends on one database the same key of bank-portal, each in its own directory', async () => {
    const other = mkdtempSync(join(tmpdir(), 'clients-'))
    const [, portal] = await loadClients({ file: undefined, demo: true, dataDirectory, database })
    const [, there] = await loadClients({ file: undefined, demo: true, dataDirectory: other, database })
    assert.deepEqual(there, portal)
    const keyIn = (directory: string) => readFileSync(join(directory, 'bank-portal.private.jwk.json'), 'utf8')
    assert.equal(keyIn(other), keyIn(dataDirectory))
    // A whole new file replaces the old one, so that a killed process leaves no empty file.
    const path = join(other, 'bank-portal.private.jwk.json')
    writeFileSync(path, '{}')
    linkSync(path, join(other, 'before'))
    await loadClients({ file: undefined, demo: true, dataDirectory: other, database })
    assert.equal(keyIn(other), keyIn(dataDirectory))
    assert.equal(readFileSync(join(other, 'before'), 'utf8'), '{}')
    rmSync(other, { recursive: true })
  })

  it('refuses a client with the name by which the gateway knows sessions', async () => {
    const clients = JSON.stringify([{ client_id: 'session' }])
    const loading = loadClients({ file: file(clients), demo: false, dataDirectory, database })
    await assert.rejects(loading, /no client may be called "session"/)
  })

  it('takes clients from a file, which may replace those of the demo', async () => {
    const own = [{ client_id: 'mobile-app', client_name: 'Ours' }, { client_id: 'another' }]
    const clients = await loadClients({
      file: file(JSON.stringify(own)),
      demo: true,
      dataDirectory,
      database,
    })
    assert.deepEqual(
      clients.map(({ client_id }) => client_id),
      ['mobile-app', 'another', 'bank-portal'],
    )
    assert.equal(clients[0]?.client_name, 'Ours')
  })

  it('says what is wrong with the file', async () => {
    for (const [content, message] of [
      ['{', /BACKEND_OAUTH_CLIENTS: .*clients\.json cannot be read/],
      ['{"client_id":"x"}', /must be a list/],
      ['[{}]', /each with a client_id/],
      ['[null]', /each with a client_id/],
      ['[{"client_id":"a"},{"client_id":"b"},{"client_id":"b"}]', /each with a client_id of its own/],
    ] as const) {
      await assert.rejects(
        loadClients({ file: file(content), demo: false, dataDirectory, database }),
        message,
      )
    }
    const missing = loadClients({ file: '/nowhere.json', demo: false, dataDirectory, database })
    await assert.rejects(missing, /BACKEND_OAUTH_CLIENTS: \/nowhere\.json cannot be read/)
  })
})

describe('the authorization server', () => {
  let database: Database
  before(async () => {
    database = await openTestPglite()
    await migrate(database)
  })
  after(() => database.close())

  it('does not start with a client that it cannot serve, and names it', async () => {
    const good = { redirect_uris: ['https://a.example/'], token_endpoint_auth_method: 'none' }
    for (const [metadata, fault] of [
      [{ redirect_uris: ['not a uri'] }, /OAuth client bad: redirect_uris/],
      [{ response_types: ['code id_token'] }, /OAuth client bad: .*response_types/],
      [{ token_endpoint_auth_method: undefined }, /OAuth client bad: jwks/],
      [
        { token_endpoint_auth_method: 'client_secret_basic', client_secret: 'x' },
        /OAuth client bad: .*token_endpoint_auth_method/,
      ],
      [{ scope: 'everything' }, /OAuth client bad: scope/],
      [
        { token_endpoint_auth_method: 'tls_client_auth', tls_client_auth_subject_dn: 'CN=bad' },
        /OAuth client bad: tls_client_auth needs tls_client_auth_san_dns or tls_client_auth_san_uri/,
      ],
      ...['AAAA', [], ['AAAA'], [7]].map(
        (issuers) =>
          [
            { tls_client_auth_issuers: issuers },
            /OAuth client bad: tls_client_auth_issuers must be/,
          ] as const,
      ),
    ] as const) {
      const clients = [{ client_id: 'bad', ...good, ...metadata }] as never
      await assert.rejects(startTestService(database, { clients }), fault)
    }
  })

  it('shares its secrets with every process over the same database', async () => {
    const [one, other] = await Promise.all([loadServerSecrets(database), loadServerSecrets(database)])
    assert.deepEqual(one, other)
    assert.equal(one.dpopNonce.length, 32)
    assert.notDeepEqual(one.dpopNonce, one.knownBrowser)
  })
})
