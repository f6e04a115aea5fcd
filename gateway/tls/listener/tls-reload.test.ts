import assert from 'node:assert/strict'
import { chmodSync, renameSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { describeFault } from '../../config/faults.ts'
import type { Reload } from '../../config/reload/reloader.ts'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import { CLIENT_AUTH, makeAuthority, makeCertificate, makeRevocationList } from '../demo/throw-away-ca.ts'
import { makeFixture, makeServer, TestClient, TestServer, verdictOn } from './connect.test-support.ts'
import type { TlsMaterial } from './tls-context.ts'
import { loadTls, tlsReloader } from './tls-reload.ts'

const fixture = await makeFixture()
/** The next certificate of the server, and a client. */
const next = await makeServer(fixture.ca)
const client = await makeCertificate({
  subject: 'CN=c',
  issuer: fixture.ca,
  extendedKeyUsages: [CLIENT_AUTH],
})
const emptyList = await makeRevocationList(fixture.ca)
const DAY_MS = 86_400_000

/** A server with a reloader of real files, which looks only when it is told to. */
async function served(t: TestContext, swap?: (material: TlsMaterial) => void, clock = Date.now) {
  const folder = temporaryDirectory(t)
  const at = (name: string) => join(folder, name)
  const { ca, server } = fixture
  const write = (name: string, text: string) => writeFileSync(at(name), text)
  write('cert', server.certPem)
  write('key', server.keyPem)
  write('ca', ca.certPem)
  write('crl', emptyList)
  const files = {
    certFile: at('cert'),
    keyFile: at('key'),
    clientCaFile: at('ca'),
    clientCrlFile: at('crl'),
    ticketKeyFile: undefined,
    ocspFile: undefined,
  }
  const { value: loaded } = loadTls(files, Date.now())
  assert.ok(loaded)
  const listener = await TestServer.start(t, loaded.material)
  const told: Reload<TlsMaterial>[] = []
  const reloader = tlsReloader({
    files,
    loaded,
    clock,
    swap: swap ?? ((material) => listener.swap(material)),
    onReload: (reload) => told.push(reload),
    intervalMs: 3_600_000,
  })
  t.after(() => reloader.stop())
  const look = async (times: number) => {
    for (let count = 0; count < times; count++) await reloader.check()
  }
  return { listener, told, look, write, at, loaded }
}

function results(told: readonly Reload<TlsMaterial>[]) {
  return told.map((reload) =>
    reload.result === 'success' ? reload.changed : reload.faults.map(describeFault),
  )
}

async function certificateOf(listener: TestServer): Promise<string> {
  const { socket } = await TestClient.connect(listener, { ca: fixture.ca.certPem })
  const serial = socket.getPeerX509Certificate()?.serialNumber ?? ''
  socket.destroy()
  return serial.toLowerCase()
}

describe('loading', () => {
  it('reports every file that cannot be read', (t) => {
    const folder = temporaryDirectory(t)
    const at = (name: string) => join(folder, name)
    const files = {
      certFile: at('a'),
      keyFile: at('b'),
      clientCaFile: at('c'),
      clientCrlFile: undefined,
      ticketKeyFile: undefined,
      ocspFile: undefined,
    }
    const { faults } = loadTls(files, Date.now())
    assert.deepEqual(
      faults?.map(({ file }) => file),
      [at('a'), at('b'), at('c')],
    )
    assert.match(faults?.[0]?.reason ?? '', /^cannot be read: ENOENT/)
  })

  it('reports what is wrong in the files', () => {
    const files = {
      certFile: 'a',
      keyFile: 'b',
      clientCaFile: undefined,
      clientCrlFile: undefined,
      ticketKeyFile: undefined,
      ocspFile: undefined,
    }
    const { faults } = loadTls(files, Date.now(), () => 'nothing')
    assert.deepEqual(
      faults?.map(({ file }) => file),
      ['a', 'b'],
    )
  })
})

describe('a reload', () => {
  it('does not happen while nothing changes', async (t) => {
    const { told, look } = await served(t)
    await look(3)
    assert.deepEqual(told, [])
  })

  it('puts another certificate in force and drops no connection, also in the middle of a request', async (t) => {
    const { listener, told, look, write, loaded } = await served(t)
    const standing = await TestClient.connect(listener, {
      ca: fixture.ca.certPem,
      key: client.keyPem,
      cert: client.certPem,
    })
    assert.equal((await standing.ask()).authorized, true)
    standing.socket.write('GET / HTTP/1.1\r\n')
    write('cert', next.certPem)
    write('key', next.keyPem)
    await look(1)
    assert.deepEqual(results(told), [true])
    const [reload] = told
    assert.ok(reload?.result === 'success')
    assert.equal(reload.before, loaded.material)
    assert.notEqual(reload.after.summary.certificate.thumbprint, reload.before.summary.certificate.thumbprint)
    assert.equal(await certificateOf(listener), next.certificate.serialNumber.toLowerCase())
    standing.socket.write('Host: localhost\r\nX: ')
    assert.equal((await standing.ask()).authorized, true)
    assert.equal((await standing.ask()).authorized, true)
    standing.socket.destroy()
    await look(3)
    assert.equal(told.length, 1)
  })

  for (const [first, second] of [
    ['cert', 'key'],
    ['key', 'cert'],
  ] as const) {
    it(`waits for the ${second} when the ${first} has changed, and reports nothing when it comes at once`, async (t) => {
      const { listener, told, look, write } = await served(t)
      const texts = { cert: next.certPem, key: next.keyPem }
      write(first, texts[first])
      await look(1)
      assert.deepEqual(told, [])
      assert.equal(await certificateOf(listener), fixture.server.certificate.serialNumber.toLowerCase())
      write(second, texts[second])
      await look(3)
      assert.deepEqual(results(told), [true])
      assert.equal(await certificateOf(listener), next.certificate.serialNumber.toLowerCase())
    })
  }

  it('of half a pair keeps the last good pair, and is reported once, and again when undone or completed', async (t) => {
    const { listener, told, look, write, at } = await served(t)
    const fault = `${at('key')}: $: is not the key of the certificate in ${at('cert')}`
    write('cert', next.certPem)
    await look(5)
    assert.deepEqual(results(told), [[fault]])
    assert.equal(await certificateOf(listener), fixture.server.certificate.serialNumber.toLowerCase())
    assert.equal((await verdictOn(listener, fixture.ca, { certificate: client })).authorized, true)
    write('cert', fixture.server.certPem)
    await look(2)
    assert.deepEqual(results(told), [[fault], false])
    write('cert', next.certPem)
    await look(2)
    assert.equal(told.length, 2)
    await look(1)
    write('key', next.keyPem)
    await look(3)
    assert.deepEqual(results(told), [[fault], false, [fault], true])
    assert.equal(await certificateOf(listener), next.certificate.serialNumber.toLowerCase())
  })

  it('of an incomplete file keeps the last good files in force and names every fault of all files', async (t) => {
    const { told, look, write, at } = await served(t)
    write('crl', emptyList.slice(0, 100))
    write('ca', fixture.server.certPem)
    await look(4)
    assert.deepEqual(results(told), [
      [
        `${at('ca')}: certificate 1: is not of a certificate authority (CN=localhost)`,
        `${at('crl')}: $: has 1 BEGIN lines, but only 0 whole blocks: it is cut off`,
      ],
    ])
  })

  it('of the revocation list refuses revoked certificates on new and open connections', async (t) => {
    const { listener, told, look, write } = await served(t)
    const standing = await TestClient.connect(listener, {
      ca: fixture.ca.certPem,
      key: client.keyPem,
      cert: client.certPem,
    })
    assert.equal((await standing.ask()).authorized, true)
    write('crl', await makeRevocationList(fixture.ca, { revoked: [client] }))
    await look(1)
    const [reload] = told
    assert.ok(reload?.result === 'success')
    assert.deepEqual([reload.before.summary.revoked, reload.after.summary.revoked], [0, 1])
    assert.equal((await standing.ask()).reason, 'it was revoked')
    assert.equal((await verdictOn(listener, fixture.ca, { certificate: client })).reason, 'it was revoked')
    standing.socket.destroy()
  })

  it('of the authorities accepts clients of the new ones and refuses those of the old', async (t) => {
    const { listener, look, write } = await served(t)
    const other = await makeAuthority({ subject: 'CN=Other' })
    const stranger = await makeCertificate({ subject: 'CN=c', issuer: other })
    assert.equal((await verdictOn(listener, fixture.ca, { certificate: stranger })).authorized, false)
    write('ca', other.certPem)
    write('crl', await makeRevocationList(other))
    await look(2)
    assert.equal((await verdictOn(listener, fixture.ca, { certificate: stranger })).authorized, true)
    assert.equal((await verdictOn(listener, fixture.ca, { certificate: client })).authorized, false)
  })

  it('of a missing file is reported once, and nothing is loaded until it is back', async (t) => {
    const { listener, told, look, write, at } = await served(t)
    unlinkSync(at('key'))
    write('cert', next.certPem)
    await look(5)
    assert.equal(told.length, 1)
    assert.match(String(results(told)[0]), /key: \$: cannot be read: ENOENT/)
    write('new', next.keyPem)
    renameSync(at('new'), at('key'))
    await look(3)
    assert.equal(results(told)[1], true)
    assert.equal(await certificateOf(listener), next.certificate.serialNumber.toLowerCase())
  })

  it('whose material could not be put in force is tried again, and reported once it is', async (t) => {
    let isRefused = true
    const { told, look, write } = await served(t, () => {
      if (isRefused) throw new Error('the clients name no issuer')
    })
    write('cert', next.certPem)
    write('key', next.keyPem)
    await look(4)
    assert.deepEqual(results(told).length, 1)
    assert.match(String(results(told)[0]), /the clients name no issuer/)
    isRefused = false
    await look(1)
    assert.deepEqual(results(told).slice(1), [true])
  })

  it('whose material cannot be put in force is compared with the old material next time', async (t) => {
    let broken = true
    const { told, look, write, loaded } = await served(t, () => {
      if (broken) throw new Error('no')
    })
    write('crl', await makeRevocationList(fixture.ca, { revoked: [client] }))
    await look(2)
    assert.match(String(results(told)), /cert: \$: cannot be put in force: no$/)
    broken = false
    write('crl', await makeRevocationList(fixture.ca, { revoked: [client, next] }))
    await look(2)
    const last = told.at(-1)
    assert.ok(last?.result === 'success')
    assert.equal(last.before, loaded.material)
  })
})

describe('a reload of what is out of its time', () => {
  /** Certificate and key of the server, valid at another time. */
  const servers = (days: { readonly fromDays: number; readonly untilDays: number }) =>
    makeCertificate({ subject: 'CN=localhost', issuer: fixture.ca, ...days })
  const EXPIRED = { fromDays: -3, untilDays: -1 }
  const TOO_EARLY = { fromDays: 1, untilDays: 3 }

  for (const [title, days, reason] of [
    ['an expired', EXPIRED, 'expired at'],
    ['a future', TOO_EARLY, 'is not valid before'],
  ] as const) {
    it(`keeps the good certificate of the server in the place of ${title} one, and says where it is`, async (t) => {
      const { listener, told, look, write, at } = await served(t)
      const bad = await servers(days)
      write('cert', bad.certPem)
      write('key', bad.keyPem)
      await look(5)
      assert.equal(told.length, 1)
      assert.match(
        String(results(told)[0]),
        new RegExp(`^${at('cert')}: certificate 1: ${reason} 20\\S+; the one in force stays`),
      )
      assert.equal(await certificateOf(listener), fixture.server.certificate.serialNumber.toLowerCase())
      write('cert', next.certPem)
      write('key', next.keyPem)
      await look(3)
      assert.equal(results(told)[1], true)
    })
  }

  it('takes another expired one when the one in force has expired too, with a warning', async (t) => {
    const time = { nowMs: Date.now() }
    const { told, look, write } = await served(t, undefined, () => time.nowMs)
    const bad = await servers(EXPIRED)
    write('cert', bad.certPem)
    write('key', bad.keyPem)
    await look(4)
    assert.equal(told.at(-1)?.result, 'failure')
    time.nowMs += 31 * DAY_MS
    await look(3)
    const last = told.at(-1)
    assert.ok(last?.result === 'success')
    assert.match(last.after.warnings.join(), /certificate 1 expired at/)
  })

  it('takes a good certificate behind which an expired authority stands, once the one in force has expired', async (t) => {
    const time = { nowMs: Date.now() }
    const { listener, told, look, write } = await served(t, undefined, () => time.nowMs)
    const { keys } = fixture.ca
    const root = (days: object) => makeAuthority({ subject: 'CN=Root,O=Test', ...days, keys })
    const good = await servers({ fromDays: -1, untilDays: 90 })
    write('cert', fixture.server.certPem + (await root({ untilDays: 90 })).certPem)
    await look(1)
    write('cert', good.certPem + (await root(EXPIRED)).certPem)
    write('key', good.keyPem)
    await look(5)
    assert.deepEqual(
      told.map(({ result }) => result),
      ['success', 'failure'],
    )
    time.nowMs += 31 * DAY_MS
    await look(3)
    assert.equal(told.at(-1)?.result, 'success')
    assert.equal(await certificateOf(listener), good.certificate.serialNumber.toLowerCase())
  })

  it('keeps the good authority and the good list in the place of expired ones, also among others', async (t) => {
    const { listener, told, look, write, at } = await served(t)
    const { keys } = fixture.ca
    const old = await makeAuthority({ subject: 'CN=Root,O=Test', ...EXPIRED, keys })
    const other = await makeAuthority({ subject: 'CN=Other' })
    write('ca', other.certPem + old.certPem)
    write('crl', emptyList + (await makeRevocationList(other)))
    await look(5)
    assert.match(String(results(told).at(-1)), new RegExp(`^${at('ca')}: certificate 2: expired at `))
    write('ca', fixture.ca.certPem)
    write('crl', await makeRevocationList(fixture.ca, EXPIRED))
    await look(5)
    assert.match(
      String(results(told).at(-1)),
      new RegExp(`^${at('crl')}: list 1: has been out of date since `),
    )
    assert.equal((await verdictOn(listener, fixture.ca, { certificate: client })).authorized, true)
  })

  it('takes a list that is out of date if it was issued after the one in force, because it may revoke', async (t) => {
    const { listener, told, look, write } = await served(t)
    write(
      'crl',
      await makeRevocationList(fixture.ca, { revoked: [client], fromDays: -1 / 48, untilDays: -1 / 96 }),
    )
    await look(5)
    assert.equal((await verdictOn(listener, fixture.ca, { certificate: client })).authorized, false)
    const [reload] = told
    assert.ok(reload?.result === 'success')
    assert.match(
      reload.after.warnings.join(),
      /out of date since .*: every client of its authority is refused/,
    )
  })

  for (const [title, spoil] of [
    ['an expired certificate', async () => (await servers(EXPIRED)).certPem],
    ['no certificate', async () => 'nothing'],
  ] as const) {
    it(`revokes a client while the file of the server holds ${title}`, async (t) => {
      const { listener, told, look, write } = await served(t)
      write('cert', await spoil())
      await look(5)
      write('crl', await makeRevocationList(fixture.ca, { revoked: [client] }))
      await look(9)
      assert.equal((await verdictOn(listener, fixture.ca, { certificate: client })).authorized, false)
      assert.equal(await certificateOf(listener), fixture.server.certificate.serialNumber.toLowerCase())
      const states = told.map(({ result }) => result)
      assert.deepEqual(states, ['failure', 'success', 'failure'])
      write('cert', next.certPem)
      write('key', next.keyPem)
      await look(9)
      assert.equal(told.at(-1)?.result, 'success')
      assert.equal(await certificateOf(listener), next.certificate.serialNumber.toLowerCase())
      assert.equal((await verdictOn(listener, fixture.ca, { certificate: client })).authorized, false)
    })
  }

  it('revokes a client while a file is missing, and then reports the missing file again', async (t) => {
    const { listener, told, look, write, at } = await served(t)
    unlinkSync(at('key'))
    await look(3)
    write('crl', await makeRevocationList(fixture.ca, { revoked: [client] }))
    await look(3)
    assert.equal((await verdictOn(listener, fixture.ca, { certificate: client })).authorized, false)
    assert.deepEqual(
      told.map(({ result }) => result),
      ['failure', 'success', 'failure'],
    )
    write('key', fixture.server.keyPem)
    await look(3)
    assert.deepEqual(results(told).at(-1), false)
  })

  it('keeps the good authorities in the place of a file of expired ones with other names', async (t) => {
    const { told, look, write, at } = await served(t)
    const other = await makeAuthority({ subject: 'CN=Other', ...EXPIRED })
    write('ca', other.certPem)
    write('crl', await makeRevocationList(other))
    await look(5)
    assert.match(String(results(told)), new RegExp(`^${at('ca')}: certificate 1: expired at `))
  })

  it('takes an authority that is not valid yet beside the good one, with a warning', async (t) => {
    const { told, look, write } = await served(t)
    const other = await makeAuthority({ subject: 'CN=Other', ...TOO_EARLY })
    write('ca', fixture.ca.certPem + other.certPem)
    write('crl', emptyList + (await makeRevocationList(other)))
    await look(3)
    const [reload] = told
    assert.ok(reload?.result === 'success')
    assert.match(reload.after.warnings.join(), /certificate 2 is not valid before/)
  })
})

describe('the secret of session tickets', () => {
  const secret = 'a-secret-of-more-than-32-characters'

  function filesIn(t: TestContext) {
    const folder = temporaryDirectory(t)
    const at = (name: string) => join(folder, name)
    writeFileSync(at('cert'), fixture.server.certPem)
    writeFileSync(at('key'), fixture.server.keyPem)
    writeFileSync(at('tickets'), `${secret}\n`, { mode: 0o600 })
    return {
      certFile: at('cert'),
      keyFile: at('key'),
      clientCaFile: undefined,
      clientCrlFile: undefined,
      ticketKeyFile: at('tickets'),
      ocspFile: undefined,
    }
  }
  const reasons = (files: ReturnType<typeof filesIn>) => loadTls(files, Date.now()).faults?.map(describeFault)

  it('is refused where others could use it, and when it is too short, and is not shown', (t) => {
    const files = filesIn(t)
    assert.equal(reasons(files), undefined)
    for (const mode of [0o644, 0o604, 0o660, 0o602]) {
      chmodSync(files.ticketKeyFile, mode)
      assert.deepEqual(reasons(files), [
        `${files.ticketKeyFile}: $: cannot be read: its mode is 0${mode.toString(8)}, so that others may use the secret in it: chmod 600; the file is named by "tls.ticketKeyFile" (GATEWAY_TLS_TICKET_KEY)`,
      ])
    }
    chmodSync(files.ticketKeyFile, 0o600)
    writeFileSync(files.ticketKeyFile, 'short')
    assert.deepEqual(reasons(files), [
      `${files.ticketKeyFile}: $: must hold one line of 32 to 256 visible ASCII characters, the secret of the session tickets`,
    ])
  })

  it('is taken up when it changes, and shown as a hash, but not taken when others could use it', async (t) => {
    const files = filesIn(t)
    const { value: loaded } = loadTls(files, Date.now())
    assert.ok(loaded)
    const told: Reload<TlsMaterial>[] = []
    const reloader = tlsReloader({
      files,
      loaded,
      clock: Date.now,
      swap: () => {},
      onReload: (reload) => told.push(reload),
      intervalMs: 3_600_000,
    })
    t.after(() => reloader.stop())
    chmodSync(files.ticketKeyFile, 0o644)
    for (let looks = 0; looks < 2; looks++) await reloader.check()
    assert.match(JSON.stringify(results(told)), /its mode is 0644/)
    chmodSync(files.ticketKeyFile, 0o600)
    writeFileSync(files.ticketKeyFile, `another-${secret}`)
    await reloader.check()
    const last = told.at(-1)
    assert.ok(last?.result === 'success' && last.changed)
    const [before, after] = [last.before.summary.ticketKeyId, last.after.summary.ticketKeyId]
    assert.match(before ?? '', /^[0-9a-f]{16}$/)
    assert.notEqual(before, after)
    assert.notDeepEqual(last.before.sharedTickets, last.after.sharedTickets)
    assert.doesNotMatch(JSON.stringify([last.before.summary, last.after.summary]), new RegExp(secret))
  })
})
