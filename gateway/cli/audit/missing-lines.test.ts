import assert from 'node:assert/strict'
import { globSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, describe, it } from 'node:test'
import { SealedTrail } from '../../evidence/sealed-trail.test-support.ts'
import { countersign } from '../program.test-support.ts'

const home = mkdtempSync(join(tmpdir(), 'missing-lines-'))

async function audit(...words: string[]) {
  const { stdout, stderr, status } = await countersign(['audit', ...words])
  return { text: `${stdout}${stderr}`, status }
}

async function rotatedTrail(name: string): Promise<SealedTrail> {
  const trail = new SealedTrail(join(home, name))
  trail.start()
  for (let i = 0; i < 3; i++) {
    trail.exchange()
    await trail.rotate()
  }
  await trail.end()
  return trail
}

/** Renames the open file, so that no file has the trail's name. */
function renameOpen({ file }: SealedTrail): void {
  renameSync(file, `${file}.20261130T000000000Z`)
}

describe('a trail of which lines are missing', () => {
  after(() => rmSync(home, { recursive: true }))

  it('a removed oldest segment is noticed, although the open one was renamed', async () => {
    const trail = await rotatedTrail('renamed')
    renameOpen(trail)
    const paths = () => globSync(`${trail.file}*`)
    for (const words of [[dirname(trail.file)], paths()]) {
      const { text, status } = await audit('verify', '--key', trail.vkey, ...words)
      assert.deepEqual([status, /^proven$/m.test(text)], [0, true], text)
    }
    const [oldest = assert.fail(), next = assert.fail(), last = assert.fail()] = trail.closed
    rmSync(oldest.path)
    for (const words of [[dirname(trail.file)], paths()]) {
      const { text, status } = await audit('verify', '--key', trail.vkey, ...words)
      assert.equal(status, 1, text)
      assert.match(text, /removed: .*stood before this one, and no AUDIT_PRUNE/)
    }
    const since = await audit('verify', '--key', trail.vkey, '--since', '2030-01-01', dirname(trail.file))
    assert.match(since.text, /: \d lines in 1 file,/)
    // With --part, or for segments that are named, the lines are judged as a part, and the output says which they are.
    const named = [next.path, last.path, `${trail.file}.20261130T000000000Z`]
    const part = await audit('verify', '--key', trail.vkey, '--part', dirname(trail.file))
    const few = await audit('verify', '--key', trail.vkey, ...named.slice(1))
    for (const [{ text, status }, first] of [[part, next.first] as const, [few, last.first] as const]) {
      assert.equal(status, 0, text)
      assert.ok(text.includes(`proven: these are lines ${first + 1} to ${trail.sealedSize} of the log`), text)
      assert.doesNotMatch(text, /^proven$/m)
    }
  })

  it('what a sealed AUDIT_PRUNE names is not missing, although the open segment was renamed', async () => {
    const trail = await rotatedTrail('pruned')
    await trail.prune()
    renameOpen(trail)
    const { text, status } = await audit('verify', '--key', trail.vkey, dirname(trail.file))
    assert.deepEqual([status, /^proven$/m.test(text)], [0, true], text)
  })

  it('a lock without its trail is no trail, and proves nothing', async () => {
    const { file, vkey } = await rotatedTrail('gone')
    const lock = `${file}.lock`
    writeFileSync(lock, '')
    for (const path of globSync(`${file}*`)) if (path !== lock) rmSync(path)
    for (const words of [['verify', '--key', vkey], ['report'], ['find', '--status', '200']]) {
      const { text, status } = await audit(...words, lock)
      assert.deepEqual([status, text.includes(`${lock} names no audit trail`)], [2, true], text)
    }
  })
})
