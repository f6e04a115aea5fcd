import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import http from 'node:http'
import { basename, join } from 'node:path'
import { after, before, describe, type TestContext, test } from 'node:test'
import type { AuditBucket } from '../../config/settings.ts'
import { temporaryDirectory } from '../trail.test-support.ts'
import { asOwner, BUCKET, badServer, keysFile, NO_S3, startS3 } from './s3.test-support.ts'
import { ShipBucket } from './ship-bucket.ts'
import { digestOf } from './ship-target.ts'
import { Shipper } from './shipper.ts'
import type { ClosedSegment } from './trail-segments.ts'

const MIB = 1024 ** 2
/** S3 takes no smaller parts, except the last. */
const CUT = { fromBytes: 5 * MIB + 1, partBytes: 5 * MIB }
const DAY_MS = 86_400_000

function largeSegment(t: TestContext, bytes = 11 * MIB + 1): ClosedSegment {
  const path = join(temporaryDirectory(t), 'audit.ndjson.20260102T000000000Z')
  fs.writeFileSync(path, randomBytes(bytes))
  return { path, compression: 'none', sizeBytes: bytes, inode: '', closedMs: 0 }
}

const bucketAt = (t: TestContext, endpoint: string, more: Partial<AuditBucket> = {}) =>
  new ShipBucket({ ...BUCKET, endpoint, credentialsFile: keysFile(t), ...more }, CUT)

test('what is sent in parts has the digests of the parts, wherever chunks end', async (t) => {
  const { path } = largeSegment(t)
  const bytes = fs.readFileSync(path)
  const { parts = [], ...whole } = await digestOf({ path }, CUT)
  const pieces = [0, 1, 2].map((i) => bytes.subarray(i * CUT.partBytes, (i + 1) * CUT.partBytes))
  assert.deepEqual(parts, await Promise.all(pieces.map((piece) => digestOf({ bytes: piece }))))
  assert.deepEqual(whole, await digestOf({ bytes }))
  assert.deepEqual((await digestOf({ bytes }, CUT)).parts, parts)
  const small = bytes.subarray(0, CUT.fromBytes - 1)
  assert.equal((await digestOf({ bytes: small }, CUT)).parts, undefined)
  const even = await digestOf({ bytes: bytes.subarray(0, 2 * CUT.partBytes) }, CUT)
  assert.equal(even.parts?.length, 2)
})

describe('a large segment in a bucket of a real server', { skip: NO_S3 }, () => {
  let endpoint = ''
  let end = () => {}
  before(async () => {
    ;({ endpoint, end } = await startS3())
  })
  after(() => end())

  const objectAt = (bucket: string, { path }: ClosedSegment) =>
    `${endpoint}/${bucket}/${BUCKET.prefix}${basename(path)}`
  /** Uploads that were begun and neither completed nor given up. */
  const openUploads = async (bucket: string) => {
    const listed = await (await asOwner(`${endpoint}/${bucket}?uploads`)).text()
    assert.match(listed, /<ListMultipartUploadsResult/)
    return listed.match(/<UploadId>/g)?.length ?? 0
  }

  /** Passes requests on, except those for which `fails` is true. */
  const proxy = (t: TestContext, fails: (request: http.IncomingMessage) => boolean) =>
    badServer(
      t,
      () => {},
      (request, response) => {
        if (fails(request)) {
          request
            .resume()
            .on('end', () => response.writeHead(503).end('<Error><Code>SlowDown</Code></Error>'))
          return
        }
        const { method = '', headers, url = '' } = request
        request.pipe(
          http.request(endpoint + url, { method, headers }, (answer) => {
            response.writeHead(answer.statusCode ?? 502, answer.headers)
            answer.pipe(response)
          }),
        )
      },
    )

  test('is sent in parts with checksums, by which a later process recognises the copy', async (t) => {
    const segment = largeSegment(t)
    const auditFile = segment.path.replace(/\.\w+$/, '')
    const shipper = new Shipper(auditFile, bucketAt(t, endpoint))
    await shipper.ship(segment)
    const object = await asOwner(objectAt('evidence', segment))
    assert.match(object.headers.get('etag') ?? '', /-3"$/)
    assert.ok(Buffer.from(await object.arrayBuffer()).equals(fs.readFileSync(segment.path)))
    const later = new Shipper(auditFile, bucketAt(t, endpoint))
    assert.equal(await later.isThere(segment, 0), true)
    assert.equal(await openUploads('evidence'), 0)
    const put = await asOwner(objectAt('evidence', segment), {
      method: 'PUT',
      body: Buffer.alloc(segment.sizeBytes),
    })
    assert.ok(put.ok)
    assert.equal(await later.isThere(segment, 0), false)
    await assert.rejects(later.ship(segment), /is there already, with other bytes/)
  })

  test('is locked as a whole', async (t) => {
    const segment = largeSegment(t)
    const objectLock = { mode: 'COMPLIANCE', retain: '400d' } as const
    const target = bucketAt(t, endpoint, { bucket: 'locked', objectLock })
    await new Shipper(segment.path, target).ship(segment)
    const { headers } = await asOwner(objectAt('locked', segment), { method: 'HEAD' })
    assert.equal(headers.get('x-amz-object-lock-mode'), 'COMPLIANCE')
    const until = Date.parse(headers.get('x-amz-object-lock-retain-until-date') ?? '')
    assert.ok(Math.abs(until - Date.now() - 400 * DAY_MS) < DAY_MS, String(until))
  })

  test('has a part sent again that did not arrive the first time', async (t) => {
    const segment = largeSegment(t)
    const sent: string[] = []
    const flaky = await proxy(t, ({ url = '' }) => {
      const part = /partNumber=(\d)/.exec(url)?.[1]
      if (part !== undefined) sent.push(part)
      return part === '2' && sent.filter((one) => one === '2').length < 3
    })
    await new Shipper(segment.path, bucketAt(t, flaky, { prefix: 'flaky/' })).ship(segment)
    assert.deepEqual(sent, ['1', '2', '2', '2', '3'])
  })

  test('is not shipped, and leaves nothing, when a part never arrives', async (t) => {
    const segment = largeSegment(t)
    const broken = await proxy(t, ({ url = '' }) => url.includes('partNumber=3'))
    const shipper = new Shipper(segment.path, bucketAt(t, broken, { prefix: 'broken/' }))
    await assert.rejects(shipper.ship(segment), /^Error: PUT http.*: 503 SlowDown$/)
    assert.equal(shipper.isShipped(segment), false)
    assert.equal(await openUploads('evidence'), 0)
    const { status } = await asOwner(`${endpoint}/evidence/broken/${basename(segment.path)}`, {
      method: 'HEAD',
    })
    assert.equal(status, 404)
  })
})

/** Sets the address from which containers of ECS and EKS get keys. @param source answers there */
async function inContainer(t: TestContext, source: Parameters<typeof badServer>[1]): Promise<void> {
  const away = join(temporaryDirectory(t), 'none')
  const before = { ...process.env }
  t.after(() => {
    process.env = before
  })
  process.env = {
    ...before,
    AWS_SHARED_CREDENTIALS_FILE: away,
    AWS_CONFIG_FILE: away,
    AWS_CONTAINER_CREDENTIALS_FULL_URI: await badServer(t, source),
  }
  for (const name of ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'AWS_PROFILE']) delete process.env[name]
}

const emptyDigest = () => digestOf({ bytes: Buffer.alloc(0) })

test('without a file of keys, the SDK finds keys itself, for example from the container', async (t) => {
  await inContainer(t, (_, response) => {
    const keys = { AccessKeyId: 'AKIACONTAINER', SecretAccessKey: 'x', Token: 'y' }
    response.end(JSON.stringify({ ...keys, Expiration: new Date(Date.now() + DAY_MS).toISOString() }))
  })
  const asked: string[] = []
  const endpoint = await badServer(t, ({ headers }, response) => {
    asked.push(`${headers.authorization} ${headers['x-amz-security-token']}`)
    response.writeHead(404).end()
  })
  const target = new ShipBucket({ ...BUCKET, endpoint })
  assert.equal(await target.has('x', await emptyDigest()), false)
  assert.match(asked.join(), /^AWS4-HMAC-SHA256 Credential=AKIACONTAINER\/\d+\/eu-central-1\/s3\/.* y$/)
})

test('keys that are replaced in their file are used from the next request on', async (t) => {
  const asked: (string | undefined)[] = []
  const endpoint = await badServer(t, ({ headers }, response) => {
    asked.push(/Credential=(\w+)/.exec(headers.authorization ?? '')?.[1])
    response.writeHead(404).end()
  })
  const credentialsFile = keysFile(t)
  const target = new ShipBucket({ ...BUCKET, endpoint, credentialsFile })
  await target.has('x', await emptyDigest())
  fs.writeFileSync(credentialsFile, 'aws_access_key_id = AKIANEW\naws_secret_access_key = new\n')
  await target.has('x', await emptyDigest())
  assert.deepEqual(asked, ['AKIAEXAMPLE', 'AKIANEW'])
})

test('a source of keys that never answers delays the gateway no longer than a server that never answers', async (t) => {
  const waits = new AbortController()
  t.mock.method(AbortSignal, 'timeout', () => waits.signal)
  await inContainer(t, () => waits.abort(new DOMException('timeout', 'TimeoutError')))
  const target = new ShipBucket({ ...BUCKET, endpoint: 'http://127.0.0.1:1' })
  await assert.rejects(target.has('x', await emptyDigest()), /^Error: HEAD http:.*\/x: timeout$/)
})

test('a segment is not shipped when the server does not join its parts, or says falsely that it did', async (t) => {
  const segment = largeSegment(t, CUT.fromBytes)
  const created =
    '<InitiateMultipartUploadResult><UploadId>up&amp;1</UploadId></InitiateMultipartUploadResult>'
  const cases: [string, string, boolean, RegExp][] = [
    ['<CompleteMultipartUploadResult/>', created, false, /does not have the checksum that was sent$/],
    ['<Error><Code>InternalError</Code></Error>', created, true, /^PUT .*: \d+ InternalError$/],
    ['', '<html>', false, /^PUT .*: 200, but the response cannot be read$/],
  ]
  for (const [completed, begun, isGivenUp, reason] of cases) {
    const asked: string[] = []
    const endpoint = await badServer(t, ({ method = '', url = '' }, response) => {
      asked.push(`${method} ${new URL(url, 'http://a').search}`)
      if (method === 'HEAD') response.writeHead(404).end()
      else if (method === 'PUT') response.writeHead(200, { etag: '"x"' }).end()
      else response.writeHead(200).end(url.includes('uploads') ? begun : completed)
    })
    await assert.rejects(
      new Shipper(segment.path, bucketAt(t, endpoint)).ship(segment),
      ({ message }: Error) => {
        assert.match(message, reason)
        return true
      },
    )
    const ids = asked.filter((one) => one.includes('uploadId')).map((one) => /uploadId=[^&]*/.exec(one)?.[0])
    assert.deepEqual([...new Set(ids)], begun === created ? ['uploadId=up%261'] : [])
    assert.equal(
      asked.some((one) => one.startsWith('DELETE')),
      isGivenUp,
    )
  }
})

test('where the keys may not see whether an object exists, parts are joined only if it does not', async (t) => {
  const segment = largeSegment(t, CUT.fromBytes)
  const asked: string[] = []
  const endpoint = await badServer(t, ({ method, url = '', headers }, response) => {
    if (method === 'PUT') response.writeHead(200, { etag: '"x"' }).end()
    else if (method === 'POST' && url.includes('uploads')) response.end('<UploadId>1</UploadId>')
    else if (method === 'POST') {
      asked.push(headers['if-none-match'] ?? '')
      response.writeHead(412).end('<Error><Code>PreconditionFailed</Code></Error>')
    } else response.writeHead(403).end()
  })
  const shipper = new Shipper(segment.path, bucketAt(t, endpoint))
  await assert.rejects(shipper.ship(segment), /^Error: PUT http.*: 412 PreconditionFailed$/)
  assert.deepEqual(asked, ['*'])
})
