import assert from 'node:assert/strict'
import fs from 'node:fs'
import type http from 'node:http'
import { syncBuiltinESMExports } from 'node:module'
import { basename, join } from 'node:path'
import { after, before, describe, type TestContext, test } from 'node:test'
import { startRecord } from '../audit-records.ts'
import { requestLine, temporaryDirectory } from '../trail.test-support.ts'
import { keeperOf } from './keeper.test-support.ts'
import { asOwner, BUCKET, badServer, keysFile, NO_S3, startS3 } from './s3.test-support.ts'
import { sealTrail } from './sealed-trail.test-support.ts'
import { ShipBucket } from './ship-bucket.ts'
import { digestOf, ShipDirectory, type ShipTarget } from './ship-target.ts'
import { Shipper } from './shipper.ts'
import { type ClosedSegment, closedSegments } from './trail-segments.ts'

const DAY_MS = 86_400_000
const BEGIN_MS = Date.UTC(2026, 0, 1)
/** A sealed trail with closed segments. Its last line is in the open one. */
function closedTrail(t: TestContext, { segments = 2, lines = 300 } = {}) {
  const directory = temporaryDirectory(t)
  const file = join(directory, 'audit.ndjson')
  const paths = Array.from({ length: segments }, (_, day) => {
    const path = `${file}.202601${String(day + 2).padStart(2, '0')}T000000000Z`
    const records = Array.from({ length: lines }, (_, i) => requestLine(`${day}-${i}`))
    fs.writeFileSync(path, startRecord({ timestamp: '', pid: day, open: 0 }) + records.join(''))
    return path
  })
  fs.writeFileSync(file, startRecord({ timestamp: 'open', pid: 1, open: 0 }))
  sealTrail(file, [...paths, file])
  return { directory, file, paths }
}

const keeperAt = (file: string, nowMs = BEGIN_MS) => keeperOf(file, () => nowMs)

const filesIn = (directory: string) =>
  fs
    .readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(directory.length + 1))
    .sort()

test('closed segments, tiles and the checkpoint are copied to a directory, as they are', async (t) => {
  const { directory, file, paths } = closedTrail(t)
  const target = temporaryDirectory(t)
  const { told, unshipped, round } = keeperAt(file)
  await round({ ship: { directory: target, s3: undefined } })
  assert.deepEqual(
    [told, unshipped],
    [
      ['ship', 'ship'],
      [2, 1, 0],
    ],
  )
  const copies = filesIn(target)
  assert.deepEqual(copies, [
    'audit-log/checkpoint',
    'audit-log/tile/0/000',
    'audit-log/tile/0/001',
    'audit-log/tile/0/002.p/91',
    'audit-log/tile/1/000.p/2',
    ...paths.map((path) => basename(path)),
  ])
  for (const name of copies) {
    assert.ok(fs.readFileSync(join(directory, name)).equals(fs.readFileSync(join(target, name))), name)
  }
  // A process that knows only what is on the disk ships nothing again.
  const next = keeperAt(file)
  await next.round({ ship: { directory: target, s3: undefined } })
  assert.deepEqual([next.told, next.unshipped], [[], [0]])
})

test('nothing is removed while its copy is missing, also when somebody has removed the copy', async (t) => {
  const { file, paths } = closedTrail(t)
  const target = temporaryDirectory(t)
  const [first = '', second = ''] = paths.map((path) => basename(path))
  const retention = { keep: '1d', unsealed: false }
  const missing = keeperAt(file, BEGIN_MS + 99 * DAY_MS)
  await missing.round({
    retention,
    ship: { directory: join(target, 'not mounted'), s3: undefined },
  })
  assert.match(
    missing.told.join(),
    /^ship failed: ENOENT.*,prune failed: .* is to be removed, but it is not shipped$/,
  )
  const ship = { directory: target, s3: undefined }
  await keeperAt(file).round({ ship })
  fs.rmSync(join(target, second))
  const later = keeperAt(file, BEGIN_MS + 99 * DAY_MS)
  await later.round({ retention, ship })
  assert.match(
    later.told.join(),
    /^prune,prune failed: .*20260103T000000000Z is to be removed, but it is not shipped$/,
  )
  assert.deepEqual(
    closedSegments(file).map(({ path }) => basename(path)),
    [second],
  )
  const last = keeperAt(file, BEGIN_MS + 99 * DAY_MS)
  await last.round({ retention, ship })
  assert.deepEqual(last.told, ['ship', 'prune'])
  assert.deepEqual(
    filesIn(target).filter((name) => name.startsWith('audit.ndjson')),
    [first, second],
  )
})

test('the log of an audit file that is a link is shipped too, under the name that its segments have', async (t) => {
  const { directory, file, paths } = closedTrail(t)
  const target = temporaryDirectory(t)
  const link = join(temporaryDirectory(t), 'audit.ndjson')
  fs.renameSync(file, join(directory, 'far.ndjson'))
  for (const path of paths) fs.renameSync(path, path.replace('audit.ndjson', 'far.ndjson'))
  fs.symlinkSync(join(directory, 'far.ndjson'), link)
  // The gateway keeps the log beside the configured name.
  fs.renameSync(join(directory, 'audit-log'), join(link, '..', 'audit-log'))
  const ship = { directory: target, s3: undefined }
  const { told, round } = keeperAt(link, BEGIN_MS + 99 * DAY_MS)
  await round({ ship, retention: { keep: '1d', unsealed: false } })
  assert.deepEqual(told, ['ship', 'ship', 'prune', 'prune'])
  assert.ok(fs.existsSync(join(target, 'far-log/checkpoint')))
})

test('a copy with other bytes is neither taken for the segment nor written over', async (t) => {
  const { file, paths } = closedTrail(t, { segments: 1 })
  const target = temporaryDirectory(t)
  const copy = join(target, basename(paths[0] ?? ''))
  fs.writeFileSync(copy, 'of another gateway\n')
  const { told, round } = keeperAt(file)
  await round({ ship: { directory: target, s3: undefined } })
  assert.match(told.join(), /^ship failed: .* is there already, with other bytes$/)
  assert.equal(fs.readFileSync(copy, 'utf8'), 'of another gateway\n')
})

/** Makes one more closed segment, which is not sealed yet. */
function closeAnother(file: string): string {
  const path = `${file}.20260109T000000000Z`
  fs.writeFileSync(path, startRecord({ timestamp: '', pid: 9, open: 0 }))
  return basename(path)
}

test('a log that was begun anew is not mixed with the copy of the old log, and nothing is removed', async (t) => {
  const { directory, file } = closedTrail(t)
  const target = temporaryDirectory(t)
  const retention = { keep: '1d', unsealed: false }
  const keeping = { retention, ship: { directory: target, s3: undefined } }
  const before = keeperAt(file, BEGIN_MS + 99 * DAY_MS)
  await before.round(keeping)
  assert.deepEqual(before.told, ['ship', 'ship', 'prune', 'prune'])
  const copies = () => filesIn(target).map((name) => [name, fs.readFileSync(join(target, name), 'latin1')])
  const copied = copies()
  // The key was lost, so a new log covers what is left of the trail. In the end it is longer than the old one.
  fs.rmSync(join(directory, 'audit-log'), { recursive: true })
  const path = `${file}.20260109T000000000Z`
  for (const lines of [5, 700]) {
    fs.writeFileSync(path, Array.from({ length: lines }, (_, i) => requestLine(`new-${i}`)).join(''))
    sealTrail(file, [path, file])
    const { told, round } = keeperAt(file, BEGIN_MS + 99 * DAY_MS)
    await round(keeping)
    assert.match(
      told.join(),
      /^ship failed: the log of the trail does not go on from the one that was copied to .*,prune failed: .* it is not shipped$/,
    )
    assert.deepEqual(copies(), copied)
  }
  const other = temporaryDirectory(t)
  const last = keeperAt(file, BEGIN_MS + 99 * DAY_MS)
  await last.round({ retention, ship: { directory: other, s3: undefined } })
  assert.deepEqual([last.told, fs.existsSync(path)], [['ship', 'prune'], false])
  const [own, copy] = [directory, other].map((one) => fs.readFileSync(join(one, 'audit-log/checkpoint')))
  assert.deepEqual(own, copy)
})

test('a log that goes on is copied further, also from where an older version stopped', async (t) => {
  const { directory, file, paths } = closedTrail(t, { segments: 1 })
  const target = temporaryDirectory(t)
  const ship = { directory: target, s3: undefined }
  await keeperAt(file).round({ ship })
  const state = JSON.parse(fs.readFileSync(`${file}.shipped`, 'utf8'))
  assert.equal(typeof state.root, 'string')
  for (const root of [state.root, undefined]) {
    fs.writeFileSync(`${file}.shipped`, JSON.stringify({ ...state, root }))
    fs.appendFileSync(file, requestLine('more'))
    sealTrail(file, [...paths, file])
    const { told, round } = keeperAt(file)
    await round({ ship })
    assert.deepEqual(told, [])
    const [own, copy] = [directory, target].map((one) => fs.readFileSync(join(one, 'audit-log/checkpoint')))
    assert.deepEqual(own, copy)
  }
})

test('a segment that is compressed after it was copied is not copied again, and is removed in its time', async (t) => {
  const { file } = closedTrail(t)
  const target = temporaryDirectory(t)
  const ship = { directory: target, s3: undefined }
  const rotation = { maxBytes: undefined, maxAge: undefined, compress: 'zstd' as const }
  await keeperAt(file).round({ ship })
  const copies = filesIn(target)
  const live = keeperAt(file)
  await live.round({ ship, rotation })
  await live.round({ ship, rotation })
  assert.deepEqual([live.told, live.unshipped, filesIn(target)], [['compress', 'compress'], [0, 0], copies])
  assert.deepEqual(
    closedSegments(file).map(({ compression }) => compression),
    ['zstd', 'zstd'],
  )
  const later = keeperAt(file, BEGIN_MS + 99 * DAY_MS)
  await later.round({ ship, rotation, retention: { keep: '1d', unsealed: false } })
  assert.deepEqual(later.told, ['prune', 'prune'])
})

test('the list of copies is written only a few times, however many segments are copied', async (t) => {
  const { file } = closedTrail(t, { segments: 25, lines: 1 })
  const { renameSync } = fs
  let writes = 0
  Object.assign(fs, {
    renameSync(from: string, to: string) {
      if (to.endsWith('.shipped')) writes++
      renameSync(from, to)
    },
  })
  syncBuiltinESMExports()
  t.after(() => {
    Object.assign(fs, { renameSync })
    syncBuiltinESMExports()
  })
  const { told, round } = keeperAt(file)
  const beganMs = performance.now()
  await round({ ship: { directory: temporaryDirectory(t), s3: undefined } })
  const seconds = Math.ceil((performance.now() - beganMs) / 1000)
  assert.equal(told.length, 25)
  assert.ok(writes <= 3 + seconds, `${writes} writes in ${seconds} s`)
})

test('after an edit of the target, nothing is removed that only the old target has', async (t) => {
  const { file, paths } = closedTrail(t)
  const [first, second] = [temporaryDirectory(t), temporaryDirectory(t)]
  const { told, round } = keeperAt(file, BEGIN_MS + 99 * DAY_MS)
  await round({ ship: { directory: first, s3: undefined } })
  assert.deepEqual(told.splice(0), ['ship', 'ship'])
  // Shipping fails, and is not tried again for a while.
  const another = closeAnother(file)
  fs.renameSync(first, `${first}-away`)
  await round({ ship: { directory: first, s3: undefined } })
  fs.renameSync(`${first}-away`, first)
  assert.match(told.splice(0).join(), /^ship failed: ENOENT/)
  const retention = { keep: '1d', unsealed: false }
  await round({ retention, ship: { directory: second, s3: undefined } })
  assert.deepEqual(told.slice(0, 5), ['ship', 'ship', 'ship', 'prune', 'prune'])
  assert.deepEqual(
    filesIn(second).filter((name) => name.startsWith('audit.ndjson')),
    [...paths.map((path) => basename(path)), another],
  )
})

test('the age of waiting segments is the age of the oldest, also when a later segment goes first', async (t) => {
  const { file, paths } = closedTrail(t)
  const [first = ''] = paths
  // The first has an open request, so it is not compressed, and only what is compressed is shipped.
  const { unshipped, oldest, round } = keeperOf(file, () => BEGIN_MS, {
    needed: async () => new Set([first]),
  })
  await round({
    rotation: { maxBytes: undefined, maxAge: undefined, compress: 'zstd' },
    ship: { directory: temporaryDirectory(t), s3: undefined },
  })
  const closedMs = BEGIN_MS + DAY_MS
  assert.deepEqual(
    [unshipped, oldest],
    [
      [2, 1],
      [closedMs, closedMs],
    ],
  )
})

async function put(target: ShipTarget, name: string, text: string): Promise<void> {
  const bytes = Buffer.from(text)
  await target.put(name, { bytes }, await digestOf({ bytes }), false)
}

describe('a bucket of a real server', { skip: NO_S3 }, () => {
  let endpoint = ''
  let end = () => {}
  before(async () => {
    ;({ endpoint, end } = await startS3())
  })
  after(() => end())

  test('has the segments, the tiles and the checkpoint, and confirms their checksums', async (t) => {
    const { directory, file, paths } = closedTrail(t)
    const s3 = { ...BUCKET, endpoint, credentialsFile: keysFile(t) }
    const { told, round } = keeperAt(file)
    await round({ ship: { directory: undefined, s3 } })
    assert.deepEqual(told, ['ship', 'ship'])
    for (const name of [
      ...paths.map((path) => basename(path)),
      'audit-log/checkpoint',
      'audit-log/tile/0/002.p/91',
    ]) {
      const object = await asOwner(`${endpoint}/evidence/gateway-1/${name}`)
      assert.ok(Buffer.from(await object.arrayBuffer()).equals(fs.readFileSync(join(directory, name))), name)
    }
    // An object that is changed in the bucket is no longer taken for a copy.
    const [segment] = closedSegments(file) as [ClosedSegment]
    const shipper = new Shipper(file, new ShipBucket(s3))
    assert.equal(await shipper.isThere(segment, 600), true)
    assert.equal(await shipper.isThere(segment, 100_000), false)
    const put = await asOwner(`${endpoint}/evidence/gateway-1/${basename(segment.path)}`, {
      method: 'PUT',
      body: 'other',
    })
    assert.ok(put.ok)
    assert.equal(await shipper.isThere(segment, 600), false)
    await assert.rejects(shipper.ship(segment), /is there already, with other bytes/)
  })

  test('locks each object if asked', async (t) => {
    const objectLock = { mode: 'COMPLIANCE', retain: '400d' } as const
    const target = new ShipBucket({
      ...BUCKET,
      endpoint,
      bucket: 'locked',
      objectLock,
      credentialsFile: keysFile(t),
    })
    await put(target, 'a segment.zst', 'text')
    const { headers } = await asOwner(`${endpoint}/locked/gateway-1/a%20segment.zst`, { method: 'HEAD' })
    assert.equal(headers.get('x-amz-object-lock-mode'), 'COMPLIANCE')
    const until = Date.parse(headers.get('x-amz-object-lock-retain-until-date') ?? '')
    assert.ok(Math.abs(until - Date.now() - 400 * DAY_MS) < DAY_MS, String(until))
  })

  test('that does not exist is named with the reason of the server', async (t) => {
    const target = new ShipBucket({ ...BUCKET, endpoint, bucket: 'nowhere', credentialsFile: keysFile(t) })
    await assert.rejects(
      put(target, 'x', 'text'),
      /^Error: PUT http:.*\/nowhere\/gateway-1\/x: 404 NoSuchBucket$/,
    )
  })
})

/** Replaces AbortSignal.timeout. `asked` are the times, and `elapse` ends the last one. */
function handTimeouts(t: TestContext) {
  const asked: number[] = []
  let last = new AbortController()
  t.mock.method(AbortSignal, 'timeout', (ms: number) => {
    asked.push(ms)
    last = new AbortController()
    return last.signal
  })
  return { asked, elapse: () => last.abort(new DOMException('timeout', 'TimeoutError')) }
}

test('a put fails with the reason when the server stalls, fails or has another checksum', async (t) => {
  const credentialsFile = keysFile(t)
  const digest = await digestOf({ bytes: Buffer.from('text') })
  const waits = handTimeouts(t)
  const notThere = (response: http.ServerResponse) => response.writeHead(404).end()
  let puts = 0
  const cases: [string, Parameters<typeof badServer>[1], RegExp][] = [
    [
      'stalls',
      (request, response) => (request.method === 'HEAD' ? notThere(response) : waits.elapse()),
      /^PUT .*: .*(timeout|aborted)/i,
    ],
    ['500', (_, response) => response.writeHead(500).end('<Code>InternalError</Code>'), /^HEAD .*: 500/],
    [
      'redirects',
      (_, response) => response.writeHead(307, { location: 'http://127.0.0.1:1/' }).end(),
      /^HEAD .*: 307 Temporary Redirect$/,
    ],
    [
      'endless reason',
      (request, response) =>
        request.method === 'HEAD' ? notThere(response) : response.writeHead(403).write('x'.repeat(70_000)),
      /^PUT .*: 403 Forbidden/,
    ],
    [
      'sends our credentials back as its reason',
      (request, response) => {
        const { authorization = '' } = request.headers
        if (request.method === 'HEAD') notThere(response)
        else response.writeHead(403, authorization).end(`<Code>${authorization}</Code>`)
      },
      /^PUT .*: 403 Forbidden$/,
    ],
    [
      'takes it and has nothing',
      (request, response) => (request.method === 'HEAD' ? notThere(response) : response.writeHead(200).end()),
      /does not have the checksum that was sent/,
    ],
    [
      'other checksum',
      (request, response) => {
        const headers = { 'content-length': 4, 'x-amz-checksum-sha256': 'AAAA', etag: `"${digest.md5}"` }
        if (request.method === 'PUT') {
          puts++
          response.writeHead(200).end()
        } else if (puts === 0) notThere(response)
        else response.writeHead(200, headers).end()
      },
      /does not have the checksum that was sent/,
    ],
  ]
  for (const [what, respond, reason] of cases) {
    const endpoint = await badServer(t, respond)
    const target = new ShipBucket({ ...BUCKET, endpoint, credentialsFile })
    await assert.rejects(put(target, 'x', 'text'), ({ message }: Error) => {
      assert.match(message, reason, what)
      return true
    })
  }
  assert.deepEqual(waits.asked.slice(0, 2), [30_000, 30_001])
})

/** A server like S3 for those who may put and get, but not list: it answers 403 for what is not there. */
async function unlistedBucket(t: TestContext, mayRead = (_name: string) => true) {
  const objects = new Map<string, { readonly bytes: Buffer; readonly sha256: string }>()
  const puts: { readonly name: string; readonly headers: http.IncomingHttpHeaders }[] = []
  const endpoint = await badServer(
    t,
    () => {},
    async (request, response) => {
      const { method, url = '', headers } = request
      const name = new URL(url, 'http://a').pathname.slice('/evidence/gateway-1/'.length)
      const found = objects.get(name)
      if (method === 'HEAD') {
        if (found === undefined || !mayRead(name)) return response.writeHead(403).end()
        const { bytes, sha256 } = found
        return response
          .writeHead(200, { 'content-length': bytes.length, 'x-amz-checksum-sha256': sha256 })
          .end()
      }
      const bytes = Buffer.concat(await request.toArray())
      puts.push({ name, headers })
      if (found !== undefined && headers['if-none-match'] === '*')
        return response.writeHead(412).end('<Error><Code>PreconditionFailed</Code></Error>')
      objects.set(name, { bytes, sha256: String(headers['x-amz-checksum-sha256']) })
      return response.writeHead(200).end()
    },
  )
  return { objects, puts, s3: { ...BUCKET, endpoint, credentialsFile: keysFile(t) } }
}

test('keys that may not list the bucket are enough, and what is there is not written over', async (t) => {
  const { directory, file, paths } = closedTrail(t, { segments: 1 })
  const { objects, puts, s3 } = await unlistedBucket(t)
  const ship = { directory: undefined, s3 }
  const { told, round } = keeperAt(file)
  await round({ ship })
  assert.deepEqual(told, ['ship'])
  for (const [name, { bytes }] of objects)
    assert.ok(bytes.equals(fs.readFileSync(join(directory, name))), name)
  const segment = basename(paths[0] ?? '')
  assert.deepEqual(
    puts.map(({ name, headers }) => [name, headers['if-none-match']]),
    [
      [segment, '*'],
      ['audit-log/tile/0/000', '*'],
      ['audit-log/tile/0/001.p/46', '*'],
      ['audit-log/tile/1/000.p/1', '*'],
      ['audit-log/checkpoint', undefined],
    ],
  )
  // Somebody has removed the copy, so it is made again before the segment may go.
  objects.delete(segment)
  const keeping = { ship, retention: { keep: '1d', unsealed: false } }
  const later = keeperAt(file, BEGIN_MS + 99 * DAY_MS)
  await later.round(keeping)
  assert.match(later.told.join(), /^prune failed: .* it is not shipped$/)
  assert.ok(fs.existsSync(paths[0] ?? ''))
  const last = keeperAt(file, BEGIN_MS + 99 * DAY_MS)
  await last.round(keeping)
  assert.deepEqual([last.told, fs.existsSync(paths[0] ?? '')], [['ship', 'prune'], false])
})

test('an edit of the lock applies from the next object on', async (t) => {
  const { file } = closedTrail(t, { segments: 1 })
  const { puts, s3 } = await unlistedBucket(t)
  const { told, round } = keeperAt(file)
  await round({ ship: { directory: undefined, s3 } })
  const another = closeAnother(file)
  const objectLock = { mode: 'COMPLIANCE', retain: '1d' } as const
  await round({ ship: { directory: undefined, s3: { ...s3, objectLock } } })
  assert.deepEqual(told, ['ship', 'ship'])
  assert.deepEqual(
    puts
      .filter(({ name }) => name.startsWith('audit.ndjson'))
      .map(({ name, headers }) => [name, headers['x-amz-object-lock-mode']]),
    [
      ['audit.ndjson.20260102T000000000Z', undefined],
      [another, 'COMPLIANCE'],
    ],
  )
})

test('an object that is there, and that the keys may not read, stays as it is', async (t) => {
  const { objects, s3 } = await unlistedBucket(t, (name) => name !== 'x')
  const other = { bytes: Buffer.from('of another gateway'), sha256: '' }
  objects.set('x', other)
  await assert.rejects(put(new ShipBucket(s3), 'x', 'text'), /^Error: PUT .*\/x: 412 PreconditionFailed$/)
  assert.equal(objects.get('x'), other)
  objects.delete('x')
  await assert.rejects(put(new ShipBucket(s3), 'x', 'text'), /^Error: HEAD .*\/x: 403 Forbidden$/)
})

test('without keys, the error says where they are missing', async (t) => {
  const credentialsFile = join(temporaryDirectory(t), 'keys')
  fs.writeFileSync(credentialsFile, 'aws_access_key_id = only\n')
  const target = new ShipBucket({ ...BUCKET, endpoint: 'http://127.0.0.1:1', credentialsFile })
  await assert.rejects(put(target, 'x', 'text'), /keys has no AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY/)
})

test('a file of keys that is mostly blank lines is read in one pass', async (t) => {
  const credentialsFile = join(temporaryDirectory(t), 'keys')
  const blank = '\n'.repeat(1_000_000)
  fs.writeFileSync(
    credentialsFile,
    `${blank}aws_access_key_id = only\r\n${blank}aws_secret_access_key =${blank}`,
  )
  const target = new ShipBucket({ ...BUCKET, endpoint: 'http://127.0.0.1:1', credentialsFile })
  await assert.rejects(put(target, 'x', 'text'), /keys has no AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY/)
})

test('a copy in a directory is on the disk and compared before it gets its name, which is then synced', async (t) => {
  const target = temporaryDirectory(t)
  const steps: string[] = []
  const { createReadStream, fsyncSync } = fs
  const { open, rename } = fs.promises
  t.after(() => {
    Object.assign(fs, { createReadStream, fsyncSync })
    Object.assign(fs.promises, { open, rename })
    syncBuiltinESMExports()
  })
  Object.assign(fs, {
    createReadStream: (path: string) => {
      steps.push(`read ${basename(path)}`)
      return createReadStream(path)
    },
    fsyncSync: (fd: number) => {
      fsyncSync(fd)
      steps.push(fs.fstatSync(fd).isDirectory() ? 'sync directory' : 'sync file')
    },
  })
  Object.assign(fs.promises, {
    open: async (path: string, flags: string) => {
      const file = await open(path, flags)
      const sync = file.sync.bind(file)
      file.sync = async () => {
        await sync()
        steps.push(`sync ${basename(path)}`)
      }
      return file
    },
    rename: async (from: string, to: string) => {
      steps.push(`rename to ${basename(to)}`)
      await rename(from, to)
    },
  })
  syncBuiltinESMExports()
  await put(new ShipDirectory(target), 'x', 'text')
  assert.deepEqual(steps, ['sync x.tmp', 'read x.tmp', 'rename to x', 'sync directory'])
})

test('what has changed since its digest was taken is not copied to a directory', async (t) => {
  const [target, home] = [temporaryDirectory(t), temporaryDirectory(t)]
  const source = { path: join(home, 'segment') }
  fs.writeFileSync(source.path, 'before')
  const digest = await digestOf(source)
  fs.writeFileSync(source.path, 'after!')
  await assert.rejects(new ShipDirectory(target).put('x', source, digest, false), /x\.tmp has other bytes$/)
  assert.deepEqual(filesIn(target), [])
})

test('the targets of two directories have two names', () => {
  assert.notEqual(new ShipDirectory('/a').name, new ShipDirectory('/b').name)
})
