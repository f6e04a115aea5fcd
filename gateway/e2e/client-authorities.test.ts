import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { renameSync, writeFileSync } from 'node:fs'
import { Agent } from 'node:https'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { countersign, PROGRAM } from '../cli/program.test-support.ts'
import {
  type Authority,
  CLIENT_AUTH,
  type Issued,
  makeAuthority,
  makeCertificate,
  makeRevocationList,
} from '../tls/demo/throw-away-ca.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { makeTlsSetup, runTool, secureCall, type TlsSetup } from './secure.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const SAN = { type: 'dns', value: 'client.bank-a.example' } as const

describe('with the authorities of two banks', () => {
  let tls: TlsSetup
  let bankB: Authority
  let upstream: TestUpstream
  let gateway: TestGateway
  let ofA: Issued
  let ofB: Issued
  let between: Authority
  let ofBetween: Issued
  let pinned: Issued
  let both: { readonly ca: string; readonly crl: string }

  const clients = () => [
    { id: 'a', mtls: { sanDns: SAN.value, issuer: 'CN=Root, O=Test' } },
    { id: 'b', mtls: { subject: 'CN=b,O=Bank B', issuer: thumbprintOf(bankB) } },
    { id: 'pinned', mtls: { thumbprint: thumbprintOf(pinned) } },
  ]
  const make = (issuer: Authority, subject = 'CN=x', san: (typeof SAN)[] = [SAN]) =>
    makeCertificate({ subject, issuer, san, extendedKeyUsages: [CLIENT_AUTH] })

  before(async () => {
    tls = await makeTlsSetup()
    upstream = await startUpstream()
    bankB = await makeAuthority({ subject: 'CN=Bank B CA,O=Bank B' })
    between = await makeAuthority({ subject: 'CN=Root,O=Test', issuer: bankB })
    ofA = await make(tls.ca)
    ofB = await make(bankB)
    ofBetween = await make(between)
    pinned = await make(bankB, 'CN=pinned', [])
    const lists = await Promise.all(
      [tls.ca, bankB, between].map((authority) => makeRevocationList(authority)),
    )
    both = { ca: tls.ca.certPem + bankB.certPem, crl: lists.join('') }
    tls.write('ca.pem', both.ca)
    tls.write('crl.pem', both.crl)
    gateway = await startGateway({
      config: { upstream: upstream.url, routes: [{ path: '/*', auth: ['mtls'] }] },
      clients: clients(),
      env: tls.env,
    })
  })
  after(async () => {
    assert.equal(await gateway.end(), 0)
    upstream.close()
  })

  const ask = async (certificate: Issued) => {
    const options = { port: gateway.tlsPort, path: '/x', ca: tls.ca, certificate, agent: new Agent() }
    const { status, json } = await secureCall(options)
    return status === 200 ? json<{ headers: Record<string, string> }>().headers['x-auth-client'] : status
  }
  const withChain = (certificate: Issued, ...more: Issued[]): Issued => ({
    ...certificate,
    certPem: [certificate, ...more].map(({ certPem }) => certPem).join(''),
  })

  it('a name is accepted only in a certificate that its own bank issued', async () => {
    assert.equal(await ask(ofA), 'a')
    assert.equal(await ask(ofB), 401)
    assert.equal(await ask(pinned), 'pinned')
    assert.equal(await ask(await make(bankB, 'CN=b,O=Bank B', [])), 'b')
    assert.equal(await ask(await make(tls.ca, 'CN=b,O=Bank B', [])), 401)
  })

  it('an authority that one bank makes with the name of the other is not accepted', async () => {
    assert.equal(await ask(withChain(ofBetween, between)), 401)
  })

  it('a certificate with the names of two clients counts for the client whose entry names its issuer', async () => {
    assert.equal(await ask(await make(bankB, 'CN=b,O=Bank B', [SAN])), 'b')
  })

  it('an entry without its issuer is a fault, at the start, in validate, and in an edit', async () => {
    const [first] = clients()
    const text = JSON.stringify({ clients: [{ ...first, mtls: { sanDns: SAN.value } }] })
    const file = join(tls.dir, 'bad-clients.json')
    writeFileSync(file, text)
    const config = join(gateway.dir, 'gateway.json')
    const env = {
      ...tls.env,
      GATEWAY_CLIENTS: file,
      GATEWAY_CONFIG: config,
      GATEWAY_LIMITS: gateway.limitsFile,
    }
    const assignments = Object.entries(env).map(([name, value]) => `${name}=${value}`)
    const validated = await countersign(['validate'], { ...process.env, ...env })
    const started = await runTool('env', [...assignments, process.execPath, PROGRAM, 'run'])
    for (const { status, output } of [{ ...validated, output: validated.stderr }, started]) {
      assert.equal(status, 1, output)
      assert.match(
        output,
        /bad-clients\.json(?::1:\d+)?: \$\.clients\[0\]\.mtls\.issuer: is missing: .* several authorities/,
      )
    }
    renameSync(file, gateway.clientsFile)
    const told = await until(() =>
      gateway.process.lines.find(({ msg }) => /last good clients/.test(String(msg))),
    )
    assert.match(JSON.stringify(told), /mtls\.issuer: is missing/)
    assert.equal(await ask(ofA), 'a')
  })

  it('a second authority does not come into force while an entry lacks its issuer', async () => {
    tls.write('ca.pem', tls.ca.certPem)
    tls.write('crl.pem', await makeRevocationList(tls.ca))
    await until(() => gateway.process.lines.find(({ msg }) => msg === 'certificates are in force'))
    const [first, , last] = clients()
    writeFileSync(
      gateway.clientsFile,
      JSON.stringify({ clients: [{ ...first, mtls: { sanDns: SAN.value } }, last] }),
    )
    await until(() => gateway.process.lines.find(({ msg }) => msg === 'clients are in force'))
    assert.equal(await ask(ofA), 'a')
    tls.write('ca.pem', both.ca)
    tls.write('crl.pem', both.crl)
    const told = await until(() =>
      gateway.process.lines.find(({ msg }) => /last good certificates/.test(String(msg))),
    )
    assert.match(
      JSON.stringify(told),
      /cannot be put in force: .*mtls\.issuer of the clients in force is missing/,
    )
    assert.equal(await ask(ofB), 401)
    assert.equal(await ask(ofA), 'a')
    const from = gateway.process.lines.length
    writeFileSync(gateway.clientsFile, JSON.stringify({ clients: [first, last] }))
    // Only clients.json is edited: now the refused authorities come into force.
    await until(() =>
      gateway.process.lines.slice(from).find(({ msg }) => msg === 'certificates are in force'),
    )
    assert.equal(await ask(await make(bankB, 'CN=b,O=Bank B', [])), 401)
    writeFileSync(gateway.clientsFile, JSON.stringify({ clients: clients() }))
    await until(async () => ((await ask(await make(bankB, 'CN=b,O=Bank B', []))) === 'b' ? true : undefined))
  })
})

function thumbprintOf({ certificate }: Issued): string {
  return createHash('sha256').update(Buffer.from(certificate.rawData)).digest('hex')
}
