import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { skipWithout } from '../../../e2e/other-programs.ts'
import { createSender } from '../../../outgoing/sender.ts'
import type { Progress } from '../paced-rounds.ts'
import { makeSealedLog, type SealedLog } from '../sealed-log.test-support.ts'
import { makeStampAuthority, type StampAuthority, serveStamps } from './stamp-authority.test-support.ts'
import { lastStamped, stampedSizes, stampsDirectory } from './stamp-files.ts'
import { StampRounds } from './stamp-rounds.ts'

describe('a log with time stamps', { skip: skipWithout('openssl') }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'stamped '))
  let authority: StampAuthority
  let served: Awaited<ReturnType<typeof serveStamps>>
  before(async () => {
    mkdirSync(join(folder, 'authority'))
    authority = makeStampAuthority(join(folder, 'authority'))
    served = await serveStamps(authority)
  })
  after(() => {
    served.server.close()
    served.server.closeAllConnections()
    rmSync(folder, { recursive: true })
  })

  /** @returns the first fault, or undefined when a checkpoint was stamped */
  async function stampOf(log: SealedLog, size: number, url: string): Promise<string | undefined> {
    const { promise, resolve } = Promise.withResolvers<string | undefined>()
    const rounds = new StampRounds({
      directory: log.directory,
      send: createSender({ url, timeoutMs: 60_000 }),
      authorities: [new X509Certificate(readFileSync(authority.caFile))],
      policy: undefined,
      everyMs: 1,
      reports: {
        progress: ({ attested }: Progress) => attested === size && resolve(undefined),
        fault: resolve,
      },
    })
    rounds.sealed(size)
    const fault = await promise
    rounds.close()
    return fault
  }

  it('keeps each checkpoint with its stamp, which openssl verifies', async () => {
    const log = makeSealedLog(join(folder, 'log'))
    const directory = stampsDirectory(log.directory)
    assert.equal(await stampOf(log, log.grow(3), served.url), undefined)
    assert.equal(await stampOf(log, log.grow(9), served.url), undefined)
    assert.deepEqual(stampedSizes(directory), [3, 12])
    assert.equal(lastStamped(directory)?.size, 12)
    for (const size of [3, 12]) {
      const args = ['-data', `${size}.checkpoint`, '-in', `${size}.tsr`, '-CAfile', authority.caFile]
      const said = execFileSync('openssl', ['ts', '-verify', ...args], { cwd: directory, stdio: 'pipe' })
      assert.match(String(said), /Verification: OK/)
    }
  })

  it('keeps nothing when the authority is away or says something else', async () => {
    const log = makeSealedLog(join(folder, 'log-2'))
    const size = log.grow(3)
    assert.match((await stampOf(log, size, `${served.url}elsewhere?`)) ?? '', /status 404/)
    assert.deepEqual(stampedSizes(stampsDirectory(log.directory)), [])
  })
})
