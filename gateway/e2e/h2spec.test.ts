import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { LONGER } from './long-runs.ts'
import { startGateway, type TestGateway } from './running-gateway.ts'
import { makeTlsSetup, runTool } from './secure.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

/** Of `go install github.com/summerwind/h2spec/cmd/h2spec@v2.6.0`, in the path or named. */
const H2SPEC =
  process.env.H2SPEC_PATH ??
  (process.env.PATH ?? '')
    .split(':')
    .map((dir) => join(dir, 'h2spec'))
    .find(existsSync)
/** More than a slow machine needs for a response. */
const TIMEOUT_SECONDS = 30
/** It takes whatever does not begin like HTTP/2 for HTTP/1.1, and says 400 in that. */
const PLAIN_ONLY = ['2: Sends invalid connection preface']

if (H2SPEC !== undefined) describe('the conformance of HTTP/2 by h2spec', () => describeConformance(H2SPEC))
// No package of Debian, so the usual run does without; of the long one nobody is to overlook it.
else if (LONGER > 1) it('the conformance of HTTP/2 by h2spec', { skip: 'h2spec is not installed' })

function describeConformance(h2spec: string): void {
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
    // They are listed again at the end, under this heading.
    const list = output.slice(output.indexOf('Failures:')).matchAll(/^ +× (.*)$/gm)
    const found = failed === '0' ? [] : Array.from(list, ([, text = '']) => text)
    assert.equal(found.length, Number(failed), output)
    return found
  }

  it('is whole with TLS', async () => {
    assert.deepEqual(await faults('--tls', '--insecure', '-p', String(gateway.tlsPort)), [])
  })

  it('is whole without TLS, where HTTP/1.1 is spoken too', async () => {
    assert.deepEqual(await faults('-p', String(gateway.port)), PLAIN_ONLY)
  })
}
