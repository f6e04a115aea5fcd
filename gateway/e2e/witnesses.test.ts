import assert from 'node:assert/strict'
import { execFile, execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import { freePort } from '../../backend/testing/free-port.ts'
import { parseCheckpoint } from '../audit/seals/checkpoint.ts'
import { makeSealKey, readSealKey } from '../audit/seals/seal-key.ts'
import { formatVerifierKey, parseNote } from '../audit/seals/signed-note.ts'
import { checkpointFile } from '../audit/seals/tiles.ts'
import {
  makeStampAuthority,
  type StampAuthority,
  serveStamps,
} from '../audit/witness/stamps/stamp-authority.test-support.ts'
import { stampedSizes } from '../audit/witness/stamps/stamp-files.ts'
import { startTestWitness, type TestWitness } from '../audit/witness/test-witness.test-support.ts'
import { WITNESSED_FILE } from '../audit/witness/witnessed-checkpoint.ts'
import { countersign } from '../cli/program.test-support.ts'
import { openWitnessed, trustedWitnesses } from '../evidence/attested-checkpoints.ts'
import { makeAuthority, makeCertificate } from '../tls/demo/throw-away-ca.ts'
import { call } from './client.ts'
import { skipWithout } from './other-programs.ts'
import { type GatewayOptions, startGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

describe('a gateway with witnesses and time stamps', { skip: skipWithout('openssl') }, () => {
  const home = mkdtempSync(join(tmpdir(), 'witnessed gateway '))
  let upstream: TestUpstream
  let gateway: TestGateway
  let options: GatewayOptions
  let stamps: StampAuthority
  let served: Awaited<ReturnType<typeof serveStamps>>
  const witnesses: TestWitness[] = []
  let log = ''

  before(async () => {
    const key = join(home, 'seal-key.pem')
    makeSealKey(key)
    const logs = [formatVerifierKey(readSealKey(key).verifier)]
    const root = await makeAuthority({ subject: 'CN=Web' })
    const tls = await makeCertificate({
      subject: 'CN=w',
      issuer: root,
      san: [{ type: 'ip', value: '127.0.0.1' }],
    })
    writeFileSync(join(home, 'web-ca.pem'), root.certPem)
    const https = { tls: { cert: tls.certPem, key: tls.keyPem } }
    witnesses.push(await startTestWitness({ name: 'w.example/tls', logs, ...https }))
    witnesses.push(await startTestWitness({ name: 'w.example/plain', logs }))
    const lie = (status: number, body: string) => ({ status, body: body.replace(/.{8}\n$/, 'AAAAAAA=\n') })
    witnesses.push(await startTestWitness({ name: 'w.example/liar', logs, lie }))
    const away = await startTestWitness({ name: 'w.example/away', logs })
    // At this port nobody will listen, unlike at one that was any free port.
    witnesses.push({ ...away, url: `http://127.0.0.1:${await freePort()}` })
    away.server.close()
    mkdirSync(join(home, 'stamps'))
    stamps = makeStampAuthority(join(home, 'stamps'))
    served = await serveStamps(stamps)
    upstream = await startUpstream((_, res) => res.end('whole'))
    const members = witnesses.map(({ url, vkey }) => ({
      url,
      key: vkey,
      ...(url.startsWith('https:') && { caFile: join(home, 'web-ca.pem') }),
    }))
    options = {
      config: {
        upstream: upstream.url,
        audit: {
          witnesses: { quorum: 2, every: '1s', members },
          stamps: { url: served.url, every: '1s', authorityFile: stamps.caFile },
        },
        routes: [{ path: '/api/*', auth: ['none'], methods: ['GET'] }],
      },
      env: { GATEWAY_AUDIT_SEALS: 'on', GATEWAY_AUDIT_SEAL_KEY: key },
    }
    gateway = await startGateway(options)
    log = `${gateway.auditFile.replace(/\.ndjson$/, '')}-log`
  })
  after(async () => {
    await gateway.end()
    upstream.close()
    for (const { server } of [...witnesses, served]) {
      server.close()
      server.closeAllConnections()
    }
    rmSync(home, { recursive: true })
  })

  const failures = (name: string, failure: string) =>
    gateway.metric(`gateway_audit_witness_failures_total{witness="w.example/${name}",failure="${failure}"}`)

  it('has a quorum of two, and counts failures of a witness that lies or is away', async () => {
    assert.equal((await call(`${gateway.url}/api/a`)).status, 200)
    const file = join(log, WITNESSED_FILE)
    const trusted = trustedWitnesses(
      witnesses.map(({ vkey }) => vkey),
      2,
    )
    const { checkpoint, says } = await until(() =>
      existsSync(file) ? openWitnessed(file, trusted) : undefined,
    )
    assert.match(says, /^signed by w\.example\/tls at \S+, w\.example\/plain at \S+$/)
    assert.ok(checkpoint.size >= 1)
    await until(async () => ((await failures('liar', 'invalid')) > 0 ? true : undefined))
    await until(async () => ((await failures('away', 'unreachable')) > 0 ? true : undefined))
    assert.equal(await failures('plain', 'conflict'), 0)
    await gateway.process.line(
      ({ msg, witness }) => msg === 'a witness did not sign the audit log' && witness === 'w.example/liar',
    )
  })

  it('has its checkpoints stamped, and witnesses and stamps follow while it serves', async () => {
    const directory = join(log, 'stamps')
    const [size = 0] = await until(() =>
      stampedSizes(directory).length > 0 ? stampedSizes(directory) : undefined,
    )
    await call(`${gateway.url}/api/b`)
    const later = await until(() => stampedSizes(directory).find((one) => one > size))
    const args = [
      'ts',
      '-verify',
      '-data',
      `${later}.checkpoint`,
      '-in',
      `${later}.tsr`,
      '-CAfile',
      stamps.caFile,
    ]
    assert.match(String(execFileSync('openssl', args, { cwd: directory, stdio: 'pipe' })), /Verification: OK/)
    for (const gauge of ['gateway_audit_unwitnessed_records', 'gateway_audit_witness_lag_seconds'])
      await until(async () => ((await gateway.metric(gauge)) === 0 ? true : undefined))
    assert.equal(await gateway.metric('gateway_audit_witness_interval_seconds'), 1)
    assert.equal(await gateway.metric('gateway_audit_stamp_interval_seconds'), 1)
  })

  it('is verified by the commands of docs/verify/audit.md', { skip: skipWithout('curl') }, async () => {
    const document = readFileSync(new URL('../../docs/verify/audit.md', import.meta.url), 'utf8')
    const chapter = document.slice(document.indexOf('### To verify what others vouch for'))
    const [places = '', commands = ''] = [...chapter.matchAll(/```sh\n([\s\S]+?)```/g)].map(
      ([, text]) => text ?? '',
    )
    const names = [...places.matchAll(/^(\w+)=/gm)].map(([, name]) => name)
    assert.deepEqual(names, ['LOG', 'WITNESS', 'TSA_CA'])
    const env = { ...process.env, LOG: log, WITNESS: witnesses[1]?.url, TSA_CA: stamps.caFile }
    // The witness is served by this process.
    const { stdout } = await promisify(execFile)('sh', ['-euc', commands], { cwd: home, env })
    assert.match(stdout, /Verification: OK\nTime stamp: /)
    const { checkpoint } = openWitnessed(
      join(home, 'seen.checkpoint'),
      trustedWitnesses([witnesses[1]?.vkey ?? '']),
    )
    assert.ok(checkpoint.size > 1)
    const keys = witnesses.slice(0, 3).map(({ vkey }) => vkey)
    const verify = (...args: string[]) => countersign(['audit', 'verify', ...args, gateway.auditFile])
    const flags = ['--witness', keys.join(), '--quorum', '2', '--stamp-authority', stamps.caFile]
    const verified = await verify('--key', join(home, 'seal-key.pem'), ...flags)
    assert.match(
      verified.stdout,
      /\nothers: \d+ lines signed by w\.example\/tls at .*\nothers: \d+ lines? stamped at .*\nproven\n$/s,
    )

    const policy = join(home, 'witnesses.policy')
    const lines = keys.map((vkey, index) => `witness w${index} ${vkey}\n`).join('')
    const logKey = formatVerifierKey(readSealKey(join(home, 'seal-key.pem')).verifier)
    writeFileSync(policy, `log ${logKey}\n${lines}group any2 2 w0 w1 w2\nquorum any2\n`)
    const again = await verify('--policy', policy)
    assert.match(again.stdout, /\nothers: \d+ lines signed by w\.example\/tls at .*\nproven\n$/s)
  })

  it('has the last seal of an orderly stop signed by witnesses before it ends', async () => {
    const trusted = trustedWitnesses(
      witnesses.map(({ vkey }) => vkey),
      2,
    )
    // On a busy machine the signatures may take more than two seconds. Then the log says so, and another stop is tried.
    for (let stop = 0; stop < 5; stop++) {
      if (stop > 0) gateway = await startGateway({ ...options, dir: gateway.dir })
      assert.equal((await call(`${gateway.url}/api/last`)).status, 200)
      assert.equal(await gateway.end(), 0)
      if (gateway.process.lines.some(({ cause }) => /in time$/.test(String(cause)))) continue
      const { checkpoint } = openWitnessed(join(log, WITNESSED_FILE), trusted)
      const last = parseCheckpoint(parseNote(readFileSync(checkpointFile(log))).text)
      assert.equal(checkpoint.size, last.size)
      return
    }
    assert.fail('none of five last seals was signed in time')
  })
})
