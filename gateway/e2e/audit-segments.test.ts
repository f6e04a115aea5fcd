import assert from 'node:assert/strict'
import { globSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as afterMs } from 'node:timers/promises'
import { blocksOf, linesIn } from '../audit/segments/read-segment.ts'
import { segmentsFrom, segmentsOfTrail } from '../audit/segments/trail-segments.ts'
import { type Line, unpaired } from '../audit/trail.test-support.ts'
import { countersign } from '../cli/program.test-support.ts'
import { call } from './client.ts'
import { startGateway, until } from './running-gateway.ts'
import { startUpstream } from './test-upstream.ts'

async function linesOf(segments: Awaited<ReturnType<typeof segmentsFrom>>): Promise<Line[]> {
  const lines: Line[] = []
  for (const segment of segments) {
    for await (const block of blocksOf(segment)) {
      for (const line of linesIn(block)) lines.push(JSON.parse(line.toString()))
    }
  }
  return lines
}

const segmentNames = (directory: string) =>
  readdirSync(directory).filter((name) => /\.\d{8}T\d{9}Z/.test(name))

function verify(dir: string, args: readonly string[]) {
  const [key = ''] = globSync('**/audit-seal-key.pem', { cwd: dir })
  return countersign(['audit', 'verify', '--key', join(dir, key), ...args])
}

test('a gateway rotates, compresses, ships and removes segments under load; kill -9 loses none', async (t) => {
  const upstream = await startUpstream((_, response) => response.end('done'))
  t.after(() => upstream.close())
  const env = { GATEWAY_AUDIT_SEALS: 'on' }
  const config = {
    upstream: upstream.url,
    routes: [{ path: '/open/*', auth: ['none'] }],
    audit: {
      rotation: { maxBytes: 65_536, compress: 'zstd' },
      retention: { keep: '1s' },
      ship: { directory: '' },
    },
  }
  const first = await startGateway({ config: { ...config, audit: { rotation: config.audit.rotation } }, env })
  const { dir } = first
  const shipped = join(dir, 'shipped')
  mkdirSync(shipped)
  let asked = 0
  const ask = (url: string) =>
    Promise.all(
      Array.from({ length: 8 }, () =>
        call(`${url}/open/${asked++}`, { headers: { 'user-agent': 'x'.repeat(400) } }),
      ),
    )
  // At the end there are two segments, and at least one request in flight.
  await until(async () => {
    await ask(first.url)
    await afterMs(50)
    return segmentNames(dir).length >= 2 ? true : undefined
  })
  const atEnd = ask(first.url).catch(() => {})
  await first.end('SIGKILL')
  await atEnd

  config.audit.ship.directory = shipped
  const file = join(dir, 'gateway.json')
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), audit: config.audit }))
  const second = await startGateway({ config, dir, env })
  await until(async () => {
    await ask(second.url)
    await afterMs(250)
    return (await second.metric('gateway_audit_segments_total{task="prune"}')) >= 2 ? true : undefined
  })
  assert.equal(await second.metric('gateway_audit_segment_errors_total{task="ship"}'), 0)
  await second.end()
  const here = await segmentsOfTrail(second.auditFile)
  const names = new Set(here.map(({ path }) => path.slice(dir.length + 1)))
  const copies = segmentNames(shipped).filter((name) => !names.has(name))
  const lines = await linesOf([...(await segmentsFrom(copies.map((name) => join(shipped, name)))), ...here])
  assert.deepEqual(unpaired(lines), [])
  assert.ok(
    lines.filter(({ type, recovered }) => type === 'API_RESPONSE' && recovered !== true).length >= asked - 8,
  )
  assert.ok(copies.every((name) => name.endsWith('.zst')))
  const left = await verify(dir, [second.auditFile])
  assert.match(left.stdout, /\nend: sealed to the end\nproven\n$/)
  // The shipped checkpoint also covers the beginning of the open file, which was not shipped.
  const paths = copies.map((name) => join(shipped, name))
  const away = await verify(dir, ['--log', join(shipped, 'audit-log'), ...paths])
  assert.match(away.stdout, /\nas they were sealed: the first \d+ lines\nend: /)
})
