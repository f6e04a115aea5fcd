import assert from 'node:assert/strict'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { responseTo } from './audit-records.ts'
import type { Commit } from './commit/commit.ts'
import { continueTrail, openTrail } from './open-trail.ts'
import { endOf, linesOf, requestLine, smallDisk, temporaryDirectory, unpaired } from './trail.test-support.ts'

const silent = { onFault: assert.fail, onRecord: () => {} }

for (const durability of ['written', 'synced', 'buffered'] as const) {
  /** A trail with two requests under way. */
  const begin = async (t: TestContext) => {
    const file = join(temporaryDirectory(t), 'audit.ndjson')
    const options = { file, durability, ...silent }
    const before = openTrail(options)
    for (const id of ['a', 'b']) await done(before.append(requestLine(id)) as Commit | undefined)
    return { file, options, before }
  }

  test(`a trail that another process goes on with gets the responses of the first (${durability})`, async (t) => {
    const { file, options, before } = await begin(t)
    assert.equal(await before.suspend('restart'), undefined)
    assert.ok(before.append(requestLine('c')) instanceof Error)
    before.settle(responseTo(requestLine('a'), 200, 1))
    let isAWritten = false
    before.whenPendingWritten((error) => {
      assert.equal(error, undefined)
      isAWritten = true
    })
    const { trail, inherited } = continueTrail(options)
    assert.equal(inherited.count, 2)
    before.leaveTo((lines) => {
      const commit = inherited.settle(lines)
      return commit ?? finished()
    })
    await done(trail.append(requestLine('d')) as Commit | undefined)
    assert.equal(isAWritten || durability === 'buffered', true)
    assert.equal(inherited.count, 1)
    await done(before.settle(responseTo(requestLine('b'), 200, 1)))
    assert.equal(inherited.count, 0)
    trail.settle(responseTo(requestLine('d'), 200, 1))
    trail.close('end')
    assert.deepEqual(unpaired(linesOf(file)), [])
    const kinds = linesOf(file).filter(({ type }) => String(type).startsWith('AUDIT_'))
    assert.deepEqual(
      kinds.map(({ type, reason, open, recovered }) => [type, reason, open, recovered]),
      [
        ['AUDIT_START', undefined, 0, 0],
        ['AUDIT_STOP', 'restart', 2, undefined],
        ['AUDIT_START', undefined, 2, 0],
        ['AUDIT_STOP', 'end', 0, undefined],
      ],
    )
  })

  test(`the responses that do not come are written when the first process ends (${durability})`, async (t) => {
    const { file, options, before } = await begin(t)
    await before.suspend('restart')
    const { trail, inherited } = continueTrail(options)
    await done(inherited.settle([responseTo(requestLine('b'), 200, 1)]))
    assert.equal(inherited.end(), 1)
    trail.close('end')
    const responses = linesOf(file).filter(({ type }) => type === 'API_RESPONSE')
    assert.deepEqual(
      responses.map(({ requestId, recovered }) => [requestId, recovered]),
      [
        ['b', undefined],
        ['a', true],
      ],
    )
  })

  test(`a trail goes on when the other process has failed (${durability})`, async (t) => {
    const { file, options, before } = await begin(t)
    await before.suspend('restart')
    before.settle(responseTo(requestLine('a'), 200, 1))
    const other = continueTrail(options)
    other.trail.close('killed')
    before.goOn()
    await done(before.append(requestLine('c')) as Commit | undefined)
    for (const id of ['b', 'c']) before.settle(responseTo(requestLine(id), 200, 1))
    before.close('end')
    assert.deepEqual(unpaired(linesOf(file)), [])
    const next = openTrail(options)
    next.close('end')
    assert.equal(linesOf(file).at(-2)?.recovered, 0)
  })
}

for (const durability of ['written', 'synced'] as const) {
  /** A trail with one request under way, suspended while others wait and the disk has room for `roomBytes`. */
  const suspendWith = async (t: TestContext, ids: readonly string[], roomBytes: number) => {
    const disk = smallDisk(t)
    const file = join(temporaryDirectory(t), 'audit.ndjson')
    const trail = openTrail({ file, durability, onFault: () => {}, onRecord: () => {} })
    const known = requestLine('known')
    await done(trail.append(known) as Commit)
    const fates = ids.map((id) => endOf(trail.append(requestLine(id))))
    const response = endOf(trail.settle(responseTo(known, 200, 1)))
    disk.roomBytes = roomBytes
    const error = await trail.suspend('restart')
    disk.roomBytes = Number.POSITIVE_INFINITY
    return { file, trail, error, fates: await Promise.all(fates), response: await response }
  }

  test(`requests that wait to be recorded when a hand-over fails are refused, and not recorded later (${durability})`, async (t) => {
    const roomBytes = requestLine('c').length + 60
    const { file, trail, error, fates, response } = await suspendWith(t, ['c', 'd'], roomBytes)
    for (const each of [error, ...fates, response]) assert.match(String(each), /ENOSPC/)
    assert.equal(trail.recheck(), true)
    trail.close('end')
    const lines = linesOf(file)
    assert.deepEqual(unpaired(lines), [])
    assert.deepEqual(
      lines.flatMap(({ requestId }) => requestId ?? []),
      ['known', 'known'],
    )
    assert.equal(lines.find(({ refused }) => refused !== undefined && refused !== 0)?.refused, 2)
  })

  test(`a recorded request goes on even if the hand-over fails afterwards (${durability})`, async (t) => {
    const c = requestLine('c')
    const roomBytes = c.length + responseTo(requestLine('known'), 200, 1).length + 20
    const { file, trail, error, fates } = await suspendWith(t, ['c'], roomBytes)
    assert.match(String(error), /ENOSPC/)
    assert.deepEqual(fates, [undefined])
    assert.equal(trail.recheck(), true)
    trail.settle(responseTo(c, 200, 1))
    trail.close('end')
    assert.deepEqual(unpaired(linesOf(file)), [])
  })
}

test('a trail whose file another process has taken waits until that process has ended', async (t) => {
  const file = join(temporaryDirectory(t), 'audit.ndjson')
  const faults: string[] = []
  const before = openTrail({ file, onFault: ({ message }) => faults.push(message), onRecord: () => {} })
  await before.suspend('restart')
  const thief = openTrail({ file, ...silent })
  before.goOn()
  before.maintain()
  assert.equal(before.writable, false)
  assert.equal(faults.length, 2)
  assert.match(faults[0] as string, /is being written by another process/)
  thief.close('end')
  before.maintain()
  assert.equal(before.writable, true)
  before.close('end')
})

function done(commit: Commit | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (commit === undefined) resolve()
    else commit.whenDone((error) => (error === undefined ? resolve() : reject(error)))
  })
}

/** A commit that is done in the next turn. */
function finished(): Commit {
  const listeners: (() => void)[] = []
  setImmediate(() => {
    for (const run of listeners) run()
  })
  return { whenDone: (run: (error: undefined) => void) => listeners.push(() => run(undefined)) } as never
}
