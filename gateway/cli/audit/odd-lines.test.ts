import assert from 'node:assert/strict'
import { appendFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { SealedTrail } from '../../evidence/sealed-trail.test-support.ts'
import { ReadLines } from '../../evidence/verify/read-lines.ts'
import { RecordOrder, Warnings } from '../../evidence/verify/record-order.ts'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import { countersign } from '../program.test-support.ts'

/** An object whose conversion to text or a number throws. */
const ODD = { valueOf: 0, toString: 0 }
const at = '2026-11-20T12:00:00.000Z'

const LINES: readonly object[] = [
  { type: 'AUDIT_SEAL', size: ODD },
  { type: 'AUDIT_SEAL', timestamp: at, origin: ODD, size: 1 },
  { type: 'AUDIT_PRUNE', timestamp: at, last: ODD, segment: ODD },
  { type: 'API_RESPONSE', timestamp: at, method: ODD, path: ODD, userId: 'u', ip: ODD, statusCode: ODD },
  { type: 'API_RESPONSE', timestamp: at, userId: 'u', statusCode: 200, duration: 1e17 },
  { type: 'STORE_DEGRADED', timestamp: at, store: ODD, cause: ODD, since: ODD },
  { type: 'STORE_RESTORED', timestamp: at, store: ODD },
  { type: 'CONFIG_CHANGE', timestamp: at, file: ODD },
  { type: 'AUDIT_STOP', timestamp: at, reason: ODD },
  { type: 'AUDIT_START', timestamp: at, cutBytes: ODD, refused: ODD },
  { type: 'AUDIT_START', timestamp: ODD },
]

test('no line that somebody appends keeps the commands from a verdict', async (t) => {
  const dir = temporaryDirectory(t)
  const trail = new SealedTrail(join(dir, 'one'))
  trail.start()
  trail.exchange()
  await trail.seal()
  for (const line of LINES) appendFileSync(trail.file, `${JSON.stringify(line)}\n`)
  for (const [words, last] of [
    [['verify', '--key', trail.vkey, trail.file], /^NOT PROVEN$/m],
    [['report', '--day', '2026-11-20', trail.file], /needs attention$/m],
    [['report', '--day', '2026-11-20', '--json', trail.file], /"attention":\[/],
    [['find', '--user', 'u', '--format', 'table', trail.file], /\(not a text\)/],
  ] as const) {
    const { stdout, stderr } = await countersign(['audit', ...words])
    assert.match(stdout, last, stderr)
    assert.doesNotMatch(stderr, /^ {4}at /m)
  }
})

test('a found record without its line end is printed as a line of its own', async (t) => {
  const dir = temporaryDirectory(t)
  const line = JSON.stringify({ type: 'API_RESPONSE', requestId: 'a', timestamp: at, statusCode: 200 })
  const files = ['one', 'other'].map((name) => join(dir, `${name}.ndjson`))
  for (const file of files) appendFileSync(file, line)
  const { stdout } = await countersign(['audit', 'find', '--request', 'a', '--format', 'ndjson', ...files])
  assert.equal(stdout, `${line}\n${line}\n`)
})

test('a day on which nothing was sealed needs a person, although the last seal is in an earlier file', async (t) => {
  const dir = temporaryDirectory(t)
  const trail = new SealedTrail(dir)
  trail.start()
  await trail.rotate()
  for (const hour of ['09', '11']) {
    const fields = { requestId: hour, timestamp: `2026-11-22T${hour}:00:00.000Z`, method: 'GET', path: '/x' }
    appendFileSync(trail.file, `${JSON.stringify({ type: 'API_REQUEST', ...fields })}\n`)
    const outcome = { statusCode: 200, duration: 1 }
    appendFileSync(trail.file, `${JSON.stringify({ type: 'API_RESPONSE', ...fields, ...outcome })}\n`)
  }
  const report = () => countersign(['audit', 'report', '--day', '2026-11-22', trail.file])
  const { status, stdout } = await report()
  assert.match(
    stdout,
    /seals {7}0.*^! lines waited \d+ s for their seal; if seals are off on purpose, move /ms,
  )
  assert.equal(status, 1)
  const log = /move (.+) away and keep it$/m.exec(stdout)?.[1] ?? ''
  renameSync(log, join(dir, 'kept'))
  assert.equal((await report()).status, 0, 'the remedy helps')
})

test('requests without a response that are too many to be followed are counted, and a warning says so', () => {
  const warnings = new Warnings(new ReadLines())
  const order = new RecordOrder(warnings, 2)
  const line = (type: string, id: number) =>
    `{"type":"${type}","requestId":"${id}","timestamp":"${at}","method":"GET"}`
  for (const id of [1, 2, 3, 4, 2]) order.read(line('API_REQUEST', id))
  assert.equal(order.open, 5)
  for (const id of [4, 1, 3, 2, 2]) order.read(line('API_RESPONSE', id))
  assert.deepEqual([order.open, order.pairs], [0, 5])
  assert.deepEqual(warnings.all(false), [
    'more than 2 requests have no response yet: those from here on are only counted',
  ])
})
