import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { constants, gzipSync, zstdCompressSync } from 'node:zlib'
import { takeProcessLock } from '../../storage/process-lock.ts'
import { startRecord } from '../audit-records.ts'
import { requestLine, temporaryDirectory } from '../trail.test-support.ts'
import { blocksOf, linesIn } from './read-segment.ts'
import { compressionOf, placeOf, type Segment } from './segment.ts'
import { segmentsFrom, segmentsOfTrail } from './trail-segments.ts'

const at = (second: number) => new Date(Date.UTC(2026, 0, 1) + second * 1000).toISOString()
const start = (second: number, continues?: string) =>
  startRecord({ timestamp: at(second), pid: 1, open: 0, continues })

/** Files in a new directory. @returns names in the order of the trail `audit.ndjson`. */
async function orderOf(directory: string, files: Record<string, string | Buffer>) {
  for (const [name, content] of Object.entries(files)) fs.writeFileSync(join(directory, name), content)
  const names = async (segments: Promise<Segment[]>) => (await segments).map(({ path }) => basename(path))
  return names(segmentsOfTrail(join(directory, 'audit.ndjson')))
}

async function textOf(path: string): Promise<string> {
  const blocks = []
  for await (const block of blocksOf({ path, compression: compressionOf(path) })) blocks.push(block)
  return Buffer.concat(blocks).toString()
}

test('the segments of a trail are in order, whoever has named and compressed them', async (t) => {
  const directory = temporaryDirectory(t)
  const order = await orderOf(directory, {
    'audit.ndjson': start(90),
    'audit.ndjson.1': start(70),
    'audit.ndjson.2.gz': gzipSync(start(60)),
    'audit.ndjson-20260102.gz': gzipSync(start(40)),
    'audit.ndjson-20260101': start(30),
    'audit.ndjson.20260101T000020000Z.zst': zstdCompressSync(start(10)),
    'audit.ndjson.20260101T000010000Z': start(5),
    'audit.ndjson.lock': 'no segment',
    'audit.ndjson.20260101T000010000Z.zst.tmp': 'no segment',
    'audit.ndjsonish.1': start(1),
  })
  const expected = [
    'audit.ndjson.20260101T000010000Z',
    'audit.ndjson.20260101T000020000Z.zst',
    'audit.ndjson-20260101',
    'audit.ndjson-20260102.gz',
    'audit.ndjson.2.gz',
    'audit.ndjson.1',
    'audit.ndjson',
  ]
  assert.deepEqual(order, expected)
  const shuffled = [...expected].sort().map((name) => join(directory, name))
  assert.deepEqual(
    (await segmentsFrom(shuffled)).map(({ path }) => basename(path)),
    expected,
  )
})

test('a clock that went backwards does not change the order, and a copy that is not whole is left out', async (t) => {
  const order = await orderOf(temporaryDirectory(t), {
    'audit.ndjson': start(-9000),
    'audit.ndjson.20260101T000020001Z': start(-50),
    'audit.ndjson.20260101T000020000Z': start(10),
    'audit.ndjson.20260101T000020000Z.zst': 'torn',
    'audit.ndjson.20260101T000010000Z.gz': gzipSync(start(900)),
  })
  assert.deepEqual(order, [
    'audit.ndjson.20260101T000010000Z.gz',
    'audit.ndjson.20260101T000020000Z',
    'audit.ndjson.20260101T000020001Z',
    'audit.ndjson',
  ])
})

test('a segment with a name of its own is found by its inode, a stranger with a used inode is not', async (t) => {
  const directory = temporaryDirectory(t)
  fs.writeFileSync(join(directory, 'kept for the auditor'), start(1))
  fs.writeFileSync(join(directory, 'limits.journal'), '{"format":"limits"}\n')
  const inode = (name: string) => String(fs.statSync(join(directory, name)).ino)
  const order = await orderOf(directory, {
    'audit.ndjson.1': start(2, inode('kept for the auditor')),
    'audit.ndjson': start(3, inode('limits.journal')),
  })
  assert.deepEqual(order, ['kept for the auditor', 'audit.ndjson.1', 'audit.ndjson'])
})

test('a segment with a lock of its own is found by its inode when the link `audit.ndjson` leads to another file by now', async (t) => {
  const directory = temporaryDirectory(t)
  const monday = join(directory, 'audit-mon.ndjson')
  fs.writeFileSync(monday, start(1))
  const continues = String(fs.statSync(monday).ino)
  fs.symlinkSync('audit-tue.ndjson', join(directory, 'audit.ndjson'))
  const locks = { 'audit-mon.ndjson.lock': '', 'audit-tue.ndjson.lock': '' }
  const order = await orderOf(directory, { ...locks, 'audit-tue.ndjson': start(2, continues) })
  assert.deepEqual(order, ['audit-mon.ndjson', 'audit-tue.ndjson'])
})

test('a lock with the inode of a removed segment is no segment, and is not released', async (t) => {
  const directory = temporaryDirectory(t)
  const path = join(directory, 'audit.ndjson.lock')
  const lock = takeProcessLock({ path, whenTaken: 'taken' })
  const { ino } = fs.statSync(path)
  assert.deepEqual(await orderOf(directory, { 'audit.ndjson': start(50, `${ino}`) }), ['audit.ndjson'])
  const module = JSON.stringify(new URL('../../storage/process-lock.ts', import.meta.url).href)
  const code = `const { takeProcessLock } = await import(${module})
    takeProcessLock(${JSON.stringify({ path, whenTaken: 'taken' })})`
  const env = { ...process.env, NODE_V8_COVERAGE: '' }
  const child = spawnSync(process.execPath, ['--no-warnings', '--input-type=module', '--eval', code], { env })
  assert.match(String(child.stderr), /Error: taken/)
  lock.release()
})

test('blocks end with a line, however the bytes lie, and only a torn last line has no end', async (t) => {
  const directory = temporaryDirectory(t)
  const lines = Array.from({ length: 12_000 }, (_, i) => requestLine(`ü-${i}`, at(i % 777)))
  const long = `${'x'.repeat(2_500_000)}\n`
  const text = `${lines.join('')}${long}${requestLine('last', at(5))}{"torn`
  const files = { plain: text, 'a.zst': zstdCompressSync(text), 'b.gz': gzipSync(text) }
  for (const [name, content] of Object.entries(files)) {
    const path = join(directory, name)
    fs.writeFileSync(path, content)
    const compression = compressionOf(path)
    const read: string[] = []
    for await (const block of blocksOf({ path, compression })) {
      for (const line of linesIn(block)) read.push(line.toString())
    }
    assert.deepEqual(read, [...lines, long, requestLine('last', at(5)), '{"torn'])
  }
})

test('a segment that was renamed or compressed since it was listed is read, and no file in its place', async (t) => {
  const directory = temporaryDirectory(t)
  const file = join(directory, 'audit.ndjson')
  fs.writeFileSync(file, start(1))
  const [open] = await segmentsOfTrail(file)
  assert.ok(open)
  const textOf = async (segment: Segment) => {
    const blocks = []
    for await (const block of blocksOf(segment)) blocks.push(block)
    return Buffer.concat(blocks).toString()
  }
  const closed = `${file}.20260101T000010000Z`
  fs.renameSync(file, closed)
  fs.writeFileSync(file, start(2))
  assert.equal(await textOf(open), start(1))
  const [segment] = await segmentsOfTrail(file)
  assert.ok(segment)
  fs.writeFileSync(`${closed}.zst`, zstdCompressSync(start(1)))
  fs.rmSync(closed)
  assert.equal(await textOf(segment), start(1))
  await assert.rejects(textOf(open), /audit.ndjson cannot be read: it is another file now/)
})

test('a name of many digits is recognised at once as one that no rotation gave', () => {
  assert.equal(placeOf(`audit.ndjson-${'0'.repeat(200)}x`), undefined)
  assert.equal(placeOf(`audit.ndjson-${'20261122-'.repeat(25)}`), undefined)
  assert.deepEqual(placeOf('audit.ndjson-20261122-15.gz'), { family: 'dated', rank: '20261122-15' })
})

test('a file of several zstd frames, as other programs write them, is read to its end', async (t) => {
  const path = join(temporaryDirectory(t), 'audit.ndjson.1.zst')
  const text = Array.from({ length: 30_000 }, (_, i) => requestLine(`${i * 7919}`)).join('')
  fs.writeFileSync(path, Buffer.concat([zstdCompressSync(text), zstdCompressSync('last\n')]))
  const bytes: Buffer[] = []
  for await (const block of blocksOf({ path, compression: 'zstd' })) bytes.push(Buffer.from(block))
  assert.equal(Buffer.concat(bytes).toString(), `${text}last\n`)
})

test('a segment whose long lines are nearly alike is read, however well it was compressed', async (t) => {
  const path = join(temporaryDirectory(t), 'audit.ndjson.1.zst')
  const padding = 'x'.repeat(8000)
  const text = Array.from({ length: 3000 }, (_, i) => `{"id":${i},"path":"${padding}"}\n`).join('')
  const compressed = zstdCompressSync(text)
  assert.ok(compressed.length * 500 < text.length)
  fs.writeFileSync(path, compressed)
  assert.equal(await textOf(path), text)
})

test('a compressed file that is cut, damaged, a bomb or of another kind is named with the reason', async (t) => {
  const directory = temporaryDirectory(t)
  const text = Array.from({ length: 5000 }, (_, i) => requestLine(`${i * 7919}`)).join('')
  const damaged = zstdCompressSync(text, { params: { [constants.ZSTD_c_checksumFlag]: 1 } })
  damaged[damaged.length >> 1] = (damaged[damaged.length >> 1] ?? 0) ^ 1
  const zeros = Buffer.alloc(70_000_000)
  const lines = Buffer.alloc(70_000_000, `${'x'.repeat(20_000)}\n`)
  const cases: [name: string, content: Buffer, reason: RegExp][] = [
    ['cut.zst', zstdCompressSync(text).subarray(0, -9), /ends too early/],
    ['cut.gz', gzipSync(text).subarray(0, -9), /ends too early/],
    [
      'behind.zst',
      Buffer.concat([zstdCompressSync(text), Buffer.from('no frame')]),
      /is not compressed with zstd/,
    ],
    [
      'hidden.zst',
      Buffer.concat([zstdCompressSync(text), Buffer.alloc(1), zstdCompressSync(text)]),
      /is not compressed with zstd/,
    ],
    ['behind.gz', Buffer.concat([gzipSync(text), Buffer.from('no member')]), /incorrect header/],
    ['empty.gz', Buffer.alloc(0), /ends too early/],
    ['damaged.zst', damaged, /corrupt/i],
    ['none.gz', Buffer.from(text), /incorrect header/],
    ['zeros.gz', gzipSync(zeros), /a line of more than|1000 times its size/],
    ['lines.zst', zstdCompressSync(lines), /more than 1000 times its size/],
    ['newlines.gz', gzipSync(Buffer.alloc(3_000_000, '\n')), /more lines than bytes/],
    ['newlines.zst', zstdCompressSync(Buffer.alloc(3_000_000, '\n')), /more lines than bytes/],
    ['short.zst', zstdCompressSync(Buffer.alloc(1_000_000, '{}\n')), /more lines than bytes/],
    ['a.xz', Buffer.from(text), /xz: decompress it to .*a first/],
  ]
  for (const [name, content, reason] of cases) {
    const path = join(directory, name)
    fs.writeFileSync(path, content)
    await assert.rejects(textOf(path), (error: Error) => {
      assert.match(error.message, reason)
      return error.message.startsWith(`audit file ${path} cannot be read: `)
    })
  }
})
