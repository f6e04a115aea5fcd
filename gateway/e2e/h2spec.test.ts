import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import { LONGER } from './long-runs.ts'
import { describeWithPrograms } from './other-programs.ts'
import { startGateway, type TestGateway } from './running-gateway.ts'
import { makeTlsSetup, runTool } from './secure.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

/** More than a slow machine needs for a response. */
const TIMEOUT_SECONDS = 30
/** The test that fails without TLS: to a client that does not begin with the preface the gateway speaks HTTP/1.1. */
const PLAIN_ONLY = ['2: Sends invalid connection preface']

const SUITE = {
  title: 'the conformance of HTTP/2 by h2spec',
  programs: ['h2spec'],
  isListed: LONGER > 1,
} as const

describeWithPrograms(SUITE, ({ h2spec }) => {
  let upstream: TestUpstream
  let gateway: TestGateway

  before(async () => {
    const tls = await makeTlsSetup()
    upstream = await startUpstream((req, res) => {
      req.resume().once('end', () => res.end('a body of some length'))
    })
    gateway = await startGateway({
      config: {
        upstream: upstream.url,
        http2: true,
        routes: [{ path: '/*', auth: ['none'], methods: ['GET', 'HEAD', 'POST'] }],
      },
      env: tls.env,
    })
  })
  after(async () => {
    upstream.close()
    assert.equal(await gateway.end(), 0)
  })

  async function faults(...args: readonly string[]): Promise<string[]> {
    const { output } = await runTool(h2spec, ['--strict', '-o', String(TIMEOUT_SECONDS), ...args])
    const [, tests, failed] = /^(\d+) tests, \d+ passed, 0 skipped, (\d+) failed$/m.exec(output) ?? []
    assert.ok(Number(tests) >= 146, output)
    // The output lists the failures again at the end, under this heading.
    const list = output.slice(output.indexOf('Failures:')).matchAll(/^ +× (.*)$/gm)
    const found = failed === '0' ? [] : Array.from(list, ([, text = '']) => text)
    assert.equal(found.length, Number(failed), output)
    return found
  }

  it('is complete with TLS', async () => {
    assert.deepEqual(await faults('--tls', '--insecure', '-p', String(gateway.tlsPort)), [])
  })

  it('is complete without TLS, except for a bad preface', async () => {
    assert.deepEqual(await faults('-p', String(gateway.port)), PLAIN_ONLY)
  })
})
