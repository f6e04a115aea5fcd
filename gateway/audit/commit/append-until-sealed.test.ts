import assert from 'node:assert/strict'
import { existsSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { sealedDisk } from '../sealed-disk.test-support.ts'
import { pruneSegments } from '../segments/prune-segments.ts'
import { SealedTree } from '../segments/sealed-tree.ts'
import { endOf, linesOf, requestLine } from '../trail.test-support.ts'
import { appendUntilSealed } from './append-until-sealed.ts'

const STAMP = '20260101T000000000Z'
const LATER = '20260102T000000000Z'

interface PruneOptions {
  readonly unsealed?: boolean
  /** Called before the line is appended. */
  readonly before?: () => void
  readonly after?: () => void
}

/** A closed segment whose retention is over, on a disk whose power can be cut, and its pruning. */
async function closedSegment(t: Parameters<typeof sealedDisk>[0]) {
  const { start, disk, cut } = sealedDisk(t)
  const { file, trail, write, seal } = start()
  await write('first', 'second')
  renameSync(file, `${file}.${STAMP}`)
  trail.reopen()
  await write('third')
  await seal()
  const prune = (
    isSealed: boolean,
    pause: () => Promise<unknown>,
    { unsealed = false, before = () => {}, after = () => {} }: PruneOptions = {},
  ) =>
    pruneSegments({
      auditFile: file,
      retention: { keep: '1s', unsealed },
      isSealed,
      nowMs: Date.UTC(2027, 0),
      wallMs: Date.UTC(2027, 0),
      needed: async () => new Set(),
      isShipped: undefined,
      inUse: async () => '',
      record: (lines) => {
        const append = async (line: string) => {
          before()
          const error = await endOf(trail.settle(line))
          if (error !== undefined) throw error
          after()
        }
        return appendUntilSealed(lines, { auditFile: file, isSealed, append, pause })
      },
    })
  return { file, trail, disk, cut, seal, prune, segment: `${file}.${STAMP}` }
}

test('a power cut at any moment of a pruning leaves the segment, or a sealed line that names it', async (t) => {
  const { disk, cut, seal, prune } = await closedSegment(t)
  const before = disk.moments.length
  let pauses = 0
  const { segments } = await prune(true, async () => {
    await turn()
    // The sealer is some time behind.
    if (++pauses > 2) await seal()
  })
  assert.equal(segments.length, 1)
  let left = 0
  for (let at = before; at < disk.moments.length; at++) {
    const { image } = cut(() => 0, at)
    const auditFile = join(image, 'audit.ndjson')
    if (existsSync(`${auditFile}.${STAMP}`)) continue
    left++
    const line = linesOf(auditFile).find(({ type }) => type === 'AUDIT_PRUNE') ?? assert.fail(`moment ${at}`)
    assert.ok(SealedTree.of(auditFile)?.hasFrom(0, `${JSON.stringify(line)}\n`), `moment ${at}`)
  }
  assert.ok(left > 0)
})

for (const rotation of ['none', 'before', 'after'] as const) {
  test(`without seals a power cut leaves the segment or its synced line, with rotation: ${rotation}`, async (t) => {
    const { file, trail, disk, cut, prune } = await closedSegment(t)
    const begin = disk.moments.length
    const rotate = () => {
      renameSync(file, `${file}.${LATER}`)
      trail.reopen()
    }
    assert.equal((await prune(false, assert.fail, { unsealed: true, [rotation]: rotate })).segments.length, 1)
    assert.equal(existsSync(`${file}.${LATER}`), rotation !== 'none')
    let left = 0
    for (let at = begin; at < disk.moments.length; at++) {
      const auditFile = join(cut(() => 0, at).image, 'audit.ndjson')
      if (existsSync(`${auditFile}.${STAMP}`)) continue
      left++
      const lines = [`${auditFile}.${LATER}`, auditFile].filter((path) => existsSync(path)).flatMap(linesOf)
      assert.ok(
        lines.some(({ type }) => type === 'AUDIT_PRUNE'),
        `moment ${at}`,
      )
    }
    assert.ok(left > 0)
  })
}

test('nothing is removed while the line that names it is not sealed', async (t) => {
  const { prune, segment } = await closedSegment(t)
  await assert.rejects(prune(true, turn), /the record of the removal was not sealed in time/)
  assert.ok(existsSync(segment))
})

test("a line in a file that a rotation has just begun survives a power cut, as does the file's name", async (t) => {
  const { file, trail, disk, cut } = await closedSegment(t)
  const line = requestLine('for good')
  await appendUntilSealed([line], {
    auditFile: file,
    isSealed: false,
    pause: assert.fail,
    append: async (one) => {
      renameSync(file, `${file}.${LATER}`)
      trail.reopen()
      assert.equal(await endOf(trail.settle(one)), undefined)
    },
  })
  disk.note()
  // Only what a sync has covered survives.
  const auditFile = join(cut(() => 0).image, 'audit.ndjson')
  assert.ok(linesOf(auditFile).some(({ requestId }) => requestId === 'for good'))
})
