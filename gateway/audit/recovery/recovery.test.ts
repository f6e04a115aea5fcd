import assert from 'node:assert/strict'
import fs from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { LONGER } from '../../e2e/long-runs.ts'
import { recoveredRecord, startRecord, stopRecord } from '../audit-records.ts'
import { sealRecord } from '../seal-records.ts'
import { signedRecord } from '../signature-records.ts'
import {
  endOf,
  linesOf,
  requestLine,
  responseLine,
  smallDisk,
  temporaryDirectory,
  unpaired,
} from '../trail.test-support.ts'
import { Trail } from '../trail.ts'
import { recover } from './recovery.ts'

const start = (open = 0, continues?: string) => startRecord({ timestamp: '', pid: 1, open, continues })
const stop = (open: number) => stopRecord({ timestamp: '', pid: 1, open, reason: 'test' })
const [a, b, c] = [requestLine('a'), requestLine('b'), requestLine('c')]

function recovered(directory: string, ...text: (string | Buffer)[]) {
  const file = join(directory, 'audit.ndjson')
  fs.writeFileSync(file, Buffer.concat(text.map((part) => Buffer.from(part))))
  return { file, recovery: recover(file), text: fs.readFileSync(file) }
}

test('a missing file and an empty one have nothing to recover', (t) => {
  const directory = temporaryDirectory(t)
  const nothing = { records: [], cutBytes: 0, damagedLines: 0, unresolved: 0 }
  assert.deepEqual(recover(join(directory, 'audit.ndjson')), nothing)
  assert.deepEqual(recovered(directory).recovery, nothing)
})

test('every request of the last run without a response is recovered, in order', (t) => {
  const { recovery } = recovered(temporaryDirectory(t), start(), a, b, c, responseLine(b))
  assert.deepEqual(recovery.records, [recoveredRecord(a), recoveredRecord(c)])
})

test('a request that was recovered before is not recovered again', (t) => {
  const { recovery } = recovered(temporaryDirectory(t), start(), a, b, recoveredRecord(a))
  assert.deepEqual(recovery.records, [recoveredRecord(b)])
})

test('n requests with one id and timestamp need n responses', (t) => {
  const { recovery } = recovered(temporaryDirectory(t), start(), a, a, responseLine(a), a, a, responseLine(a))
  assert.deepEqual(recovery.records, [recoveredRecord(a), recoveredRecord(a)])
})

test('of two requests with the id and time that a client chose, the one without a response is recovered', (t) => {
  const [one, other] = ['1', '2'].map((digit) =>
    requestLine('same', undefined, `0199a8f0-7c1e-7a3b-9d55-${digit.repeat(12)}`),
  )
  assert.ok(one !== undefined && other !== undefined)
  for (const [done, open] of [
    [one, other],
    [other, one],
  ] as const) {
    const { recovery } = recovered(temporaryDirectory(t), start(), one, other, responseLine(done))
    assert.deepEqual(recovery.records, [recoveredRecord(open)])
  }
})

test('one id with two timestamps is two exchanges', (t) => {
  const later = requestLine('a', '2026-01-02T03:04:06.000Z')
  const { recovery } = recovered(temporaryDirectory(t), start(), a, later, responseLine(a))
  assert.deepEqual(recovery.records, [recoveredRecord(later)])
})

test('a torn last line is cut, and nothing else', (t) => {
  const directory = temporaryDirectory(t)
  for (const torn of [
    a.slice(0, -1),
    a.slice(0, 40),
    '{',
    '{"type":"',
    '\0\0\0\0',
    `${a.slice(0, 30)}\0\0`,
  ]) {
    const { recovery, text } = recovered(directory, start(), a, responseLine(a), torn)
    assert.equal(recovery.cutBytes, Buffer.byteLength(torn))
    assert.equal(recovery.damagedLines, 0)
    assert.equal(text.toString(), start() + a + responseLine(a))
  }
})

test('a file of one torn line becomes empty', (t) => {
  const { recovery, text } = recovered(temporaryDirectory(t), a.slice(0, 50))
  assert.equal(recovery.cutBytes, 50)
  assert.equal(text.length, 0)
})

test('a last line that is not a torn record is kept, ended, and counted as damaged', (t) => {
  const directory = temporaryDirectory(t)
  for (const foreign of ['somebody else wrote this', '{"other":1}', '\0\0x']) {
    const { recovery, text } = recovered(directory, start(), a, foreign)
    assert.equal(text.toString(), `${start()}${a}${foreign}\n`)
    assert.deepEqual(recovery, { records: [recoveredRecord(a)], cutBytes: 0, damagedLines: 1, unresolved: 0 })
  }
})

test('a torn line in a file that cannot be cut is ended and counted as damaged', (t) => {
  smallDisk(t).canCut = false
  const { recovery, text } = recovered(temporaryDirectory(t), start(), a, b.slice(0, 40))
  assert.equal(text.toString(), `${start()}${a}${b.slice(0, 40)}\n`)
  assert.deepEqual(recovery, { records: [recoveredRecord(a)], cutBytes: 0, damagedLines: 1, unresolved: 0 })
})

test('an open signed request gets an unsigned response, and an answered one gets none', (t) => {
  const signature = { label: 'sig', value: 'AA==' }
  const signed = signedRecord(a, signature)
  const { recovery } = recovered(
    temporaryDirectory(t),
    start(),
    signed,
    b,
    signedRecord(responseLine(b), signature),
  )
  assert.deepEqual(recovery.records, [recoveredRecord(a)])
})

test('a trail of a newer version is refused by name and stays as it is, whether it was stopped or not', (t) => {
  const directory = temporaryDirectory(t)
  const file = join(directory, 'audit.ndjson')
  for (const line of [
    '{"type":"AUDIT_START","open":0,"format":5}\n',
    '{"type":"AUDIT_STOP","open":0,"format":5}\n',
  ]) {
    const text = `${start()}${a}${line}`
    fs.writeFileSync(file, text)
    assert.throws(() => recover(file), {
      message: `audit file ${file} cannot be used: it was written by a newer version of the gateway: its format is 5, and this version reads up to 4`,
    })
    assert.equal(fs.readFileSync(file, 'utf8'), text)
  }
})

test('damage in the middle is counted, left as it is, and hides no open request', (t) => {
  const damage = [
    'garbage\n',
    '\n',
    Buffer.from([0xff, 0xfe, 0, 10]),
    b.slice(0, 60) + b,
    responseLine(b).slice(0, 60) + b,
    `${responseLine(a).slice(0, -10)}\n`,
    `${b.slice(0, -2)}\n`,
    '{"type":"API_REQUEST","requestId":}\n',
    '{"type":"API_RESPONSE","requestId":"b"}\n',
    '{"type":"AUDIT_START","open":}\n',
    '{"type":"AUDIT_STOP","open":"none"}\n',
  ]
  const directory = temporaryDirectory(t)
  const whole = recovered(directory, start(), a, ...damage, c, responseLine(c))
  assert.deepEqual(whole.recovery.records, [recoveredRecord(a)])
  assert.equal(whole.recovery.damagedLines, damage.length)
  assert.equal(recovered(directory, '\n').recovery.damagedLines, 1)
  for (const line of damage)
    assert.equal(recovered(directory, start(), line).recovery.damagedLines, 1, String(line))
})

test('a response with a torn sector in it does not count, although its key and its end are whole', (t) => {
  const torn = responseLine(a).replace('"statusCode":200', '\0'.repeat(40))
  const { recovery } = recovered(temporaryDirectory(t), start(), a, torn, b, responseLine(b))
  assert.deepEqual([recovery.records, recovery.damagedLines], [[recoveredRecord(a)], 1])
})

test('damage after a line with a count makes recovery read to the start of the run', (t) => {
  // The damage hides the response to c, so the remaining responses seem complete.
  const { recovery } = recovered(
    temporaryDirectory(t),
    start(),
    a,
    b,
    stop(1),
    start(1),
    'garbage\n',
    responseLine(c),
  )
  assert.deepEqual(recovery.records, [recoveredRecord(a), recoveredRecord(b)])
})

test('damage before a line with a count does not end the search too early', (t) => {
  const { recovery } = recovered(temporaryDirectory(t), start(), a, b, 'garbage\n', stop(1), start(1))
  assert.deepEqual(recovery.records, [recoveredRecord(a), recoveredRecord(b)])
})

test('damage in the last run does not make recovery read the run before it', (t) => {
  const { recovery } = recovered(temporaryDirectory(t), start(), a, start(), b, 'garbage\n')
  assert.deepEqual(recovery.records, [recoveredRecord(b)])
})

test('nothing before the last start is read', (t) => {
  const { recovery } = recovered(temporaryDirectory(t), 'garbage\n', a, start(), b)
  assert.deepEqual(recovery, { records: [recoveredRecord(b)], cutBytes: 0, damagedLines: 0, unresolved: 0 })
})

test('after a clean stop nothing before the last line is read', (t) => {
  const { recovery } = recovered(temporaryDirectory(t), 'garbage\n', a, stop(0))
  assert.deepEqual(recovery, { records: [], cutBytes: 0, damagedLines: 0, unresolved: 0 })
})

test('recovery reads past seals, at the end or anywhere else', (t) => {
  const seal = sealRecord('', 'o', { type: 'AUDIT_SEAL', size: 3, root: '' })
  const gap = sealRecord('', 'o', { type: 'AUDIT_SEAL_GAP', size: 3, found: undefined })
  const directory = temporaryDirectory(t)
  const clean = recovered(directory, 'garbage\n', a, stop(0), seal)
  assert.deepEqual(clean.recovery, { records: [], cutBytes: 0, damagedLines: 0, unresolved: 0 })
  const crashed = recovered(directory, start(), a, seal, gap, b, seal, seal.slice(0, 30))
  assert.deepEqual(crashed.recovery, {
    records: [recoveredRecord(a), recoveredRecord(b)],
    cutBytes: 30,
    damagedLines: 0,
    unresolved: 0,
  })
})

test('recovery reads past an outage as long as a request from before it may be open', (t) => {
  const directory = temporaryDirectory(t)
  const pause = stop(2) + start(2)
  const open = recovered(directory, start(), 'garbage\n', a, b, pause, c, responseLine(b), responseLine(c))
  assert.deepEqual(open.recovery.records, [recoveredRecord(a)])
  // Reading stops when the count is reached.
  assert.equal(open.recovery.damagedLines, 0)
  const completed = recovered(
    directory,
    start(),
    'garbage\n',
    a,
    b,
    pause,
    responseLine(b),
    responseLine(a),
    c,
  )
  assert.deepEqual(completed.recovery, {
    records: [recoveredRecord(c)],
    cutBytes: 0,
    damagedLines: 0,
    unresolved: 0,
  })
})

test('lines longer than one read are read whole', (t) => {
  const long = requestLine('x'.repeat(700_000))
  const longer = requestLine('y'.repeat(300_000))
  const { recovery } = recovered(
    temporaryDirectory(t),
    start(),
    long,
    a,
    longer,
    responseLine(longer),
    b.slice(0, 20),
  )
  assert.deepEqual(recovery.records, [recoveredRecord(long), recoveredRecord(a)])
})

test('a torn last line longer than one read is cut', (t) => {
  const torn = requestLine('x'.repeat(600_000)).slice(0, -1)
  const { recovery, text } = recovered(temporaryDirectory(t), start(), a, torn)
  assert.equal(recovery.cutBytes, Buffer.byteLength(torn))
  assert.equal(text.toString(), start() + a)
})

test('a tail of NUL bytes longer than one read is cut, but not a tail with another byte in it', (t) => {
  const directory = temporaryDirectory(t)
  const zeros = Buffer.alloc(600_000)
  assert.equal(recovered(directory, a, zeros).recovery.cutBytes, 600_000)
  zeros[599_999] = 1
  assert.equal(recovered(directory, a, zeros).recovery.cutBytes, 0)
})

test('characters beyond ASCII are recovered unchanged', (t) => {
  const request = requestLine('日本 é 😀')
  const { recovery } = recovered(temporaryDirectory(t), start(), request)
  assert.deepEqual(recovery.records, [recoveredRecord(request)])
})

test('a file that cannot be read is an error that names it', (t) => {
  const directory = temporaryDirectory(t)
  assert.throws(() => recover(directory), /audit file .* cannot be used: EISDIR/)
})

test('an open request in a rotated file is found by the inode that the new file names', (t) => {
  const directory = temporaryDirectory(t)
  const rotated = join(directory, 'named-by-the-operator')
  fs.writeFileSync(rotated, `garbage\n${start()}${a}${b}${stop(2)}`)
  const { ino } = fs.statSync(rotated, { bigint: true })
  const { recovery } = recovered(directory, start(2, ino.toString()), responseLine(b), c)
  assert.deepEqual(recovery, {
    records: [recoveredRecord(a), recoveredRecord(c)],
    cutBytes: 0,
    damagedLines: 0,
    unresolved: 0,
  })
})

test('a file of another kind that got the inode of a rotated one is not read', (t) => {
  const directory = temporaryDirectory(t)
  const stranger = join(directory, 'limits.journal')
  fs.writeFileSync(stranger, '{"rows":[]}\n'.repeat(50))
  const { ino } = fs.statSync(stranger, { bigint: true })
  const { recovery } = recovered(directory, start(3, ino.toString()), responseLine(a))
  assert.deepEqual(recovery, { records: [], cutBytes: 0, damagedLines: 0, unresolved: 2 })
})

test('a rotated file is not read when every request that was open in it has its response', (t) => {
  const directory = temporaryDirectory(t)
  const rotated = join(directory, 'audit.ndjson.1')
  fs.writeFileSync(rotated, `${start()}garbage\n${b}`)
  const { ino } = fs.statSync(rotated, { bigint: true })
  const { recovery } = recovered(directory, start(1, ino.toString()), responseLine(a))
  assert.deepEqual(recovery, { records: [], cutBytes: 0, damagedLines: 0, unresolved: 0 })
})

test('a request is found through two rotations, also after a later outage', (t) => {
  const directory = temporaryDirectory(t)
  const inodeOf = (file: string) => fs.statSync(file, { bigint: true }).ino.toString()
  const [first, second] = [join(directory, 'first'), join(directory, 'second')]
  fs.writeFileSync(first, start() + a + b + stop(2))
  fs.writeFileSync(second, start(2, inodeOf(first)) + responseLine(b) + stop(1))
  const { recovery } = recovered(directory, start(1, inodeOf(second)), c, stop(2), start(2))
  assert.deepEqual(recovery.records, [recoveredRecord(a), recoveredRecord(c)])
})

test('lines before the first AUDIT_START of a new file do not hide the previous file', (t) => {
  const directory = temporaryDirectory(t)
  const rotated = join(directory, 'named-by-the-operator')
  fs.writeFileSync(rotated, start() + a + b)
  const { ino } = fs.statSync(rotated, { bigint: true })
  const { recovery } = recovered(directory, responseLine(b), stop(1), start(1, ino.toString()))
  assert.deepEqual(recovery.records, [recoveredRecord(a)])
})

test('files without an AUDIT_START are read on the way back, each once', (t) => {
  const directory = temporaryDirectory(t)
  const write = (name: string, text: string, second: number) => {
    fs.writeFileSync(join(directory, name), text)
    fs.utimesSync(join(directory, name), second, second)
    return fs.statSync(join(directory, name), { bigint: true }).ino.toString()
  }
  write('audit.ndjson.3', start() + a + b, 1000)
  write('audit.ndjson.2', responseLine(b), 2000)
  const inode = write('audit.ndjson.1', '', 3000)
  const { recovery } = recovered(directory, start(1, inode))
  assert.deepEqual(recovery.records, [recoveredRecord(a)])
  assert.equal(recovery.unresolved, 0)
})

test('open requests of a rotated file that is gone are counted', (t) => {
  const { recovery } = recovered(temporaryDirectory(t), start(3, '1'), responseLine(a))
  assert.deepEqual(recovery, { records: [], cutBytes: 0, damagedLines: 0, unresolved: 2 })
})

test('after a kill between the rename and the new file, the newest file with a suffix is read', (t) => {
  const directory = temporaryDirectory(t)
  const file = join(directory, 'audit.ndjson')
  const write = (name: string, text: string, second: number) => {
    fs.writeFileSync(join(directory, name), text)
    fs.utimesSync(join(directory, name), second, second)
  }
  write('audit.ndjson.2', start() + b, 1000)
  write('audit.ndjson-20260102', start() + a + c.slice(0, 30), 2000)
  write('audit.ndjson.3.gz', start() + c, 3000)
  write('audit.ndjson.lock', start() + c, 3000)
  write('audit.ndjson.clock', '2026-01-02T00:00:00.000Z\n', 3000)
  write('audit.ndjsonish', start() + c, 3000)
  write('other.ndjson', start() + c, 3000)
  fs.mkdirSync(join(directory, 'audit.ndjson.d'))
  const { records, damagedLines } = recover(file)
  assert.deepEqual([records, damagedLines], [[recoveredRecord(a)], 0])
  // An empty new file changes nothing.
  assert.deepEqual(recovered(directory).recovery.records, [recoveredRecord(a)])
})

const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ what: fc.constant('request' as const), id: fc.nat(3), at: fc.nat(1) }),
  },
  { weight: 6, arbitrary: fc.record({ what: fc.constant('response' as const), which: fc.nat(20) }) },
  { weight: 1, arbitrary: fc.record({ what: fc.constant('rotate' as const) }) },
  { weight: 1, arbitrary: fc.record({ what: fc.constant('crash' as const), cutBytes: fc.nat(900) }) },
)

test('any interleaving, cut at any byte, has one response for each request after recovery, and nothing else is lost', async (t) => {
  const root = temporaryDirectory(t)
  let run = 0
  const law = fc.asyncProperty(fc.array(step, { maxLength: 40 }), fc.nat(), async (steps, lastCut) => {
    const directory = join(root, String(run++))
    const file = join(directory, 'audit.ndjson')
    const open = () => new Trail({ file, onFault: assert.fail, onRecord: () => {} })
    let trail = open()
    trail.begin(recover(file))
    const rotated: string[] = []
    let pending: string[] = []
    const crash = (cutBytes: number) => {
      trail.close('a crash writes no such line: it is cut again')
      const text = fs.readFileSync(file)
      const end = text.lastIndexOf('\n', -2) + 1
      const left = text.subarray(0, Math.max(0, end - cutBytes))
      fs.writeFileSync(file, left)
      const recovery = recover(file)
      trail = open()
      trail.begin(recovery)
      pending = []
      const wholeLines = left.subarray(0, left.lastIndexOf('\n') + 1)
      assert.equal(recovery.cutBytes, left.length - wholeLines.length)
      assert.deepEqual(fs.readFileSync(file).subarray(0, wholeLines.length), wholeLines)
    }
    for (const it of steps) {
      if (it.what === 'request') {
        const line = requestLine(`id-${it.id}`, `2026-01-02T03:04:05.00${it.at}Z`)
        assert.equal(await endOf(trail.append(line)), undefined)
        pending.push(line)
      } else if (it.what === 'response') {
        const [line] = pending.splice(it.which % Math.max(1, pending.length), 1)
        if (line !== undefined) await endOf(trail.settle(responseLine(line)))
      } else if (it.what === 'rotate') {
        const name = `${file}.${rotated.length}`
        fs.renameSync(file, name)
        rotated.push(name)
        trail.reopen()
        fs.utimesSync(name, rotated.length, rotated.length)
      } else crash(it.cutBytes)
    }
    crash(lastCut % (fs.statSync(file).size + 1))
    assert.deepEqual(unpaired([...rotated, file].flatMap(linesOf)), [])
    trail.close('end')
  })
  await fc.assert(law, { numRuns: 500 * LONGER, includeErrorInReport: true })
})
