import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { linesIn } from '../../audit/segments/read-segment.ts'
import { temporaryDirectory } from '../../audit/trail.test-support.ts'
import { LONGER } from '../../e2e/long-runs.ts'
import { SealedTrail } from '../sealed-trail.test-support.ts'
import { trailsOf } from '../trail-files.ts'
import { trustedKey } from './trusted-key.ts'
import { verifyTrail } from './verify-trail.ts'

const EXCHANGES = 20_000 * Math.min(LONGER, 10)
const ROUNDS = 5

/** CPU time in milliseconds, of all threads, because the machine may be busy with other things. */
async function cpuMs(run: () => unknown): Promise<number> {
  const before = process.cpuUsage()
  await run()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}

test('a trail is verified for little more than its hashes cost', async (t) => {
  const dir = temporaryDirectory(t)
  const trail = new SealedTrail(dir)
  trail.start()
  for (let i = 0; i < EXCHANGES; i += 1000) trail.exchanges(1000)
  await trail.end()
  const key = trustedKey(trail.vkey)
  const [{ segments } = assert.fail()] = await trailsOf([trail.file])
  const verify = async () => {
    const { findings } = await verifyTrail({ segments, isPart: false, directory: trail.directory, key })
    assert.deepEqual(findings, [])
  }
  // A hash for the leaf, and one for a node.
  const hashTwice = () => {
    for (const line of linesIn(readFileSync(trail.file))) hash('sha256', hash('sha256', line, 'buffer'))
  }
  const ratios: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const hashes = await cpuMs(hashTwice)
    ratios.push((await cpuMs(verify)) / hashes)
  }
  assert.ok(Math.min(...ratios) < 3, `${ratios} times the cost of the hashes`)
})
