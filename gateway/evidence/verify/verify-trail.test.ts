import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { zstdCompressSync } from 'node:zlib'
import { responseTo, startRecord } from '../../audit/audit-records.ts'
import { sha256 } from '../../audit/seals/hashes.ts'
import { makeMlDsaKey, readSealKey } from '../../audit/seals/seal-key.ts'
import { SealedLog } from '../../audit/seals/sealed-log.ts'
import { formatVerifierKey, verifierKey } from '../../audit/seals/signed-note.ts'
import { checkpointFile, tilePath } from '../../audit/seals/tiles.ts'
import { segmentsOfTrail } from '../../audit/segments/trail-segments.ts'
import { checkProofs, proveLines } from '../line-proofs.ts'
import { SealedTrail } from '../sealed-trail.test-support.ts'
import { trailsOf } from '../trail-files.ts'
import { ReadLines } from './read-lines.ts'
import { trustedKey } from './trusted-key.ts'
import { type Evidence, verifyTrail } from './verify-trail.ts'

const home = mkdtempSync(join(tmpdir(), 'verify-trail-'))
process.on('exit', () => rmSync(home, { recursive: true }))
let trails = 0

async function newTrail(exchanges = 20): Promise<SealedTrail> {
  const trail = new SealedTrail(join(home, String(++trails)))
  trail.start()
  trail.exchanges(exchanges)
  await trail.seal()
  return trail
}

async function judge(trail: SealedTrail, more: Partial<Evidence> = {}, paths = [trail.file]) {
  const [{ segments, beginsWhole } = assert.fail()] = await trailsOf(paths)
  const { directory } = trail
  return verifyTrail({ segments, isPart: !beginsWhole, directory, key: trustedKey(trail.vkey), ...more })
}

describe('verifying a trail', () => {
  it('is not held up by a pipe or a device in the place of a file of the log', async () => {
    const put: Record<string, (path: string) => void> = {
      pipe: (path) => execFileSync('mkfifo', [path]),
      device: (path) => symlinkSync('/dev/zero', path),
      directory: (path) => mkdirSync(path),
    }
    for (const [what, make] of Object.entries(put)) {
      const trail = await newTrail(200)
      const tile = join(trail.directory, tilePath(0, 0))
      rmSync(tile)
      make(tile)
      const { findings, provenLines } = await judge(trail)
      assert.deepEqual([what, findings.map((one) => one.what), provenLines], [what, ['tile'], 401])
      const checkpoint = checkpointFile(trail.directory)
      rmSync(checkpoint)
      make(checkpoint)
      await assert.rejects(judge(trail), /checkpoint is no regular file/, what)
    }
  })

  it('keeps no more of the lines behind the checkpoint than it compares', () => {
    const lines = new ReadLines()
    lines.beginFile('a')
    lines.keepTo(1000)
    for (let line = 0; line < 5000; line++) lines.push(sha256(Buffer.from(String(line))), line * 2)
    assert.deepEqual([lines.count, lines.hash(999) !== undefined, lines.hash(1000)], [5000, true, undefined])
    // Line 4999 was not kept, so its place is the last mark before it.
    assert.deepEqual(lines.place(4999), { file: 'a', line: 4865, byte: 9728 })
    assert.deepEqual(lines.place(999), { file: 'a', line: 1000, byte: 1998 })
  })

  it('names lines behind an orderly end, whatever time they tell, with and without the last seal', async () => {
    const far = Date.parse('2100-01-01T00:00:00Z')
    for (const [ms, hasSeal] of [
      [far, true],
      [far, false],
      [Date.now() - 60_000, false],
    ] as const) {
      const trail = await newTrail()
      await trail.end()
      assert.deepEqual((await judge(trail)).findings, [])
      if (!hasSeal) writeFileSync(trail.file, trail.lines.slice(0, -1).join(''))
      const timestamp = new Date(ms).toISOString()
      const start = startRecord({ timestamp, version: '0.1.0', pid: 7, open: 0 })
      appendFileSync(trail.file, `${start}${trail.lines[1]?.replace('request-1', 'forged')}`)
      utimesSync(trail.file, ms / 1000, ms / 1000)
      const [finding] = (await judge(trail)).findings
      assert.deepEqual(
        [finding?.what, finding?.place?.line],
        ['added', trail.lines.length + (hasSeal ? 1 : 0)],
      )
    }
  })

  it('does not take seals that a gateway makes meanwhile for a roll-back', async () => {
    const trail = await newTrail()
    const folder = join(home, String(trails))
    const watched = join(home, 'watched')
    cpSync(folder, watched, { recursive: true })
    trail.exchange()
    await trail.seal()
    let grown = false
    const onRead = () => {
      if (!grown) cpSync(folder, watched, { recursive: true })
      grown = true
    }
    const evidence = { onRead, directory: join(watched, 'audit-log') }
    const verdict = await judge(trail, evidence, [join(watched, 'audit.ndjson')])
    assert.deepEqual([verdict.findings, verdict.lines], [[], trail.lines.length])
    assert.match(verdict.tail, /^unsealed: 4 lines/)
  })

  it('accuses nobody when the gateway rotates, compresses or seals more while the trail is read', async () => {
    const trail = await newTrail()
    const renamed = (await trailsOf([trail.file]))[0]!.segments
    await trail.rotate()
    assert.deepEqual((await judge(trail, { segments: renamed })).findings, [])

    const compressed = (await trailsOf([trail.file]))[0]!.segments
    const [{ path } = assert.fail()] = trail.closed
    writeFileSync(`${path}.zst`, zstdCompressSync(readFileSync(path)))
    rmSync(path)
    assert.deepEqual((await judge(trail, { segments: compressed })).findings, [])

    const segments = async () => {
      const listed = await segmentsOfTrail(trail.file)
      await trail.rotate()
      trail.exchange()
      await trail.seal()
      return listed
    }
    const { findings, lines } = await judge(trail, { segments })
    assert.deepEqual([findings, lines < trail.lines.length], [[], true])
  })

  it('lets only an AUDIT_PRUNE that is sealed excuse missing lines, because anybody can write another', async () => {
    const trail = await newTrail()
    await trail.rotate()
    trail.exchange()
    await trail.rotate()
    await trail.end()
    const [oldest = assert.fail(), next = assert.fail()] = trail.closed
    rmSync(oldest.path)
    const forged = JSON.stringify({
      type: 'AUDIT_PRUNE',
      segment: oldest.path,
      first: 0,
      last: next.first - 1,
    })
    appendFileSync(trail.file, `${forged}\n`)
    const { findings } = await judge(trail)
    assert.deepEqual([findings.map(({ what }) => what)], [['removed', 'added']])
    assert.match(findings[0]?.text ?? '', /no AUDIT_PRUNE that is sealed says/)
  })

  it('accuses nobody when a gateway prunes and seals while the trail is read', async () => {
    const trail = await newTrail()
    await trail.rotate()
    trail.exchange()
    await trail.rotate()
    await trail.seal()
    const segments = async () => {
      await trail.prune()
      return segmentsOfTrail(trail.file)
    }
    const { findings, firstLeaf } = await judge(trail, { segments })
    assert.deepEqual([findings, firstLeaf > 0], [[], true])
  })

  it('accepts the response to a request that was pruned, and names a response whose request is nowhere', async () => {
    const trail = await newTrail()
    const request = trail.request()
    await trail.rotate()
    trail.write(responseTo(request, 200, 1))
    await trail.rotate()
    await trail.prune()
    await trail.end()
    const pruned = await judge(trail)
    assert.deepEqual([pruned.findings, pruned.warnings, pruned.firstLeaf > 0], [[], [], true])
    const whole = await newTrail()
    whole.write(responseTo(request, 200, 1))
    await whole.end()
    assert.match((await judge(whole)).warnings.join(), /, line 43, byte \d+: a response without its request$/)
  })

  it('names an AUDIT_SEAL with a size that no tree has, in a trail of any length', async () => {
    const trail = await newTrail(6000)
    trail.exchange()
    await trail.end()
    const at = trail.lines.length - 4
    for (const size of [{ size: 0 }, {}, { size: -1 }, { size: 1.5 }, { size: 'many' }, { size: 2 ** 60 }]) {
      const line = `${JSON.stringify({ type: 'AUDIT_SEAL', origin: trail.key.origin, ...size })}\n`
      writeFileSync(trail.file, trail.lines.with(at, line).join(''))
      const [first] = (await judge(trail)).findings
      assert.equal(first?.place?.line, at + 1, line)
      // Behind the checkpoint, only the content of the seal shows that the seal is wrong.
      writeFileSync(trail.file, [...trail.lines, line].join(''))
      const [behind] = (await judge(trail)).findings
      assert.equal(behind?.place?.line, trail.lines.length + 1, line)
    }
  })

  it('names a roll-back once, however many seals are of a later state', async () => {
    const trail = await newTrail()
    const { origin } = trail.key
    const later = `${JSON.stringify({ type: 'AUDIT_SEAL', origin, size: 1000, pad: 'x'.repeat(900) })}\n`
    appendFileSync(trail.file, later.repeat(6000))
    assert.deepEqual(
      (await judge(trail)).findings.map(({ what }) => what),
      ['rolled back'],
    )
  })

  it('finds a trail that was put back whole, or written anew with the key, only by a checkpoint kept elsewhere', async () => {
    const trail = await newTrail()
    const saved = join(home, 'saved')
    cpSync(join(home, String(trails)), saved, { recursive: true })
    trail.exchange()
    await trail.end()
    const bytes = readFileSync(checkpointFile(trail.directory))
    const kept = [{ file: 'kept-checkpoint', bytes, says: 'kept elsewhere' }]
    const [{ segments } = assert.fail()] = await trailsOf([join(saved, 'audit.ndjson')])
    const old = { segments, directory: join(saved, 'audit-log') }
    assert.deepEqual((await judge(trail, old)).findings, [])
    const rolled = await judge(trail, { ...old, kept })
    assert.equal(rolled.findings[0]?.what, 'rolled back')
    assert.deepEqual((await judge(trail, { kept })).findings, [])

    rmSync(trail.directory, { recursive: true })
    const log = SealedLog.open(trail.directory, readSealKey(trail.keyFile))
    const lines = readFileSync(trail.file, 'utf8')
      .replaceAll('GET', 'PUT')
      .replace(/.*AUDIT_SEAL.*\n/g, '')
    for (const line of lines.split(/(?<=\n)/)) log.append(sha256(Buffer.from(`\0${line}`)))
    log.append(sha256(Buffer.from('\0more\n')))
    log.append(sha256(Buffer.from('\0more\n')))
    await log.seal(0, () => {})
    writeFileSync(trail.file, `${lines}more\nmore\n`)
    assert.deepEqual((await judge(trail)).findings, [])
    const anew = await judge(trail, { kept })
    assert.match(anew.findings[0]?.text ?? '', /written anew with the same key/)
  })

  it('names no line in the warning about a kept checkpoint that is older than what is left', async () => {
    const trail = await newTrail(40)
    const kept = [
      { file: 'kept', bytes: readFileSync(checkpointFile(trail.directory)), says: 'kept elsewhere' },
    ]
    trail.exchanges(200)
    await trail.rotate()
    trail.exchange()
    await trail.rotate()
    await trail.prune()
    await trail.end()
    const { findings, warnings } = await judge(trail, { kept })
    assert.deepEqual([findings, warnings], [[], ['kept is older than what is left of the log']])
  })

  it('finds lines that were rewritten with the tiles over them, and names the seal behind them', async () => {
    const trail = await newTrail(300)
    trail.exchange()
    await trail.end()
    const forged = new SealedTrail(join(home, 'forged'))
    for (const line of trail.lines) {
      const other = line.replace('/api/data/7"', '/api/data/8"')
      forged.write(other)
    }
    const checkpoint = readFileSync(checkpointFile(trail.directory))
    await forged.seal()
    cpSync(join(forged.directory, 'tile'), join(trail.directory, 'tile'), { recursive: true, force: true })
    writeFileSync(checkpointFile(trail.directory), checkpoint)
    writeFileSync(trail.file, forged.lines.slice(0, trail.lines.length).join(''))
    const [first] = (await judge(trail)).findings
    assert.equal(first?.what, 'changed')
    assert.notEqual(first?.place, undefined)
  })

  it('proves a part of a trail by itself, and says how the part ends', async () => {
    const trail = await newTrail(200)
    await trail.rotate('gzip')
    trail.exchange()
    await trail.end()
    const part = await judge(trail, {}, [trail.closed[0]!.path])
    assert.match(part.tail, /^cut: 4 sealed lines/)
    const open = (await trailsOf([trail.file]))[0]!.segments.slice(-1)
    const last = await judge(trail, { segments: open, isPart: true })
    assert.deepEqual([last.findings, last.tail], [[], 'sealed to the end'])
    assert.ok(last.firstLeaf > 400)
    const [gone] = (await judge(trail, { segments: open })).findings
    assert.match(gone?.text ?? '', /no AUDIT_PRUNE/)
  })

  it('proves closed segments alone where the rest was not given, and names what was changed, cut or moved in them', async () => {
    const trail = await newTrail(300)
    await trail.rotate()
    trail.exchange()
    await trail.end()
    const [{ path } = assert.fail()] = trail.closed
    const lines = readFileSync(path, 'utf8').split(/(?<=\n)/)
    const alone = () => judge(trail, { endsEarly: true }, [path])
    const { findings, part, tail } = await alone()
    assert.deepEqual([findings, part], [[], { first: 0, last: lines.length - 1 }])
    assert.match(tail, /^4 sealed lines after these were not given/)
    assert.equal((await judge(trail, {}, [path])).findings[0]?.what, 'truncated')
    const mutations: readonly ((at: number) => string[])[] = [
      (at) => lines.toSpliced(at, 1, lines[at]!.replace('T', 't')),
      (at) => lines.toSpliced(at, 1),
      (at) => lines.toSpliced(at, 0, lines[at]!),
      (at) => lines.slice(0, at),
    ]
    for (let at = 1; at < lines.length; at += 67) {
      for (const mutate of mutations) {
        writeFileSync(path, mutate(at).join(''))
        const verdict = await alone()
        assert.deepEqual([verdict.findings.length > 0, verdict.part], [true, undefined], `line ${at}`)
      }
    }
    // Both a line and the tile over it are changed.
    const changed = lines.with(3, lines[3]!.replace('T', 't'))
    writeFileSync(path, changed.join(''))
    const tile = join(trail.directory, tilePath(0, 0))
    const bytes = readFileSync(tile)
    bytes.write(sha256(Buffer.from(`\0${changed[3]}`)), 3 * 32, 'latin1')
    writeFileSync(tile, bytes)
    assert.notDeepEqual((await alone()).findings, [])
  })

  it('trusts no key but the one that is given, with its name', async () => {
    const trail = await newTrail()
    const stranger = await newTrail()
    const [unsigned] = (await judge(trail, { key: trustedKey(stranger.keyFile) })).findings
    assert.match(unsigned?.text ?? '', /is not signed by the trusted key/)
    const [misnamed] = (await judge(trail, { key: trustedKey(stranger.vkey) })).findings
    assert.match(misnamed?.text ?? '', /is of the log countersign/)
    assert.throws(() => trustedKey(join(home, 'none')), /the key .*none cannot be used/)
    const empty = join(home, 'empty')
    writeFileSync(empty, '\n')
    assert.throws(() => trustedKey(empty), /the key .*empty cannot be used: it holds no key/)
    const { publicKey } = trail.key.verifier
    assert.equal(formatVerifierKey(trail.key.verifier).includes(publicKey.toString('base64')), false)
  })

  it('asks for the signatures of all given keys, but on an older checkpoint for only one signature', async () => {
    const trail = await newTrail()
    const file = checkpointFile(trail.directory)
    const before = readFileSync(file)
    makeMlDsaKey(trail.keyFile)
    const { mlDsaVerifier = assert.fail() } = readSealKey(trail.keyFile)
    const both = trustedKey(`${trail.vkey}\n${formatVerifierKey(mlDsaVerifier)}\n`)
    const kept = [{ file: 'kept', bytes: before, says: 'kept' }]
    assert.match((await judge(trail, { key: both })).findings[0]?.text ?? '', /not signed by the trusted key/)

    await SealedLog.open(trail.directory, readSealKey(trail.keyFile)).seal(0, () => {})
    const after = readFileSync(file, 'utf8')
    for (const key of [both, trustedKey(trail.keyFile), trustedKey(trail.vkey)]) {
      assert.deepEqual((await judge(trail, { key, kept })).findings, [])
    }
    writeFileSync(file, before)
    assert.deepEqual(
      (await judge(trail, { key: trustedKey(trail.keyFile) })).findings,
      [],
      'a key that is not used',
    )
    writeFileSync(file, after)
    const stranger = await newTrail()
    makeMlDsaKey(stranger.keyFile)
    const { publicKey } = readSealKey(stranger.keyFile).mlDsaVerifier ?? assert.fail()
    const other = formatVerifierKey(verifierKey(trail.key.origin, mlDsaVerifier.type, publicKey))
    const [unsigned] = (await judge(trail, { key: trustedKey(`${trail.vkey},${other}`) })).findings
    assert.match(unsigned?.text ?? '', /not signed by the trusted key/)
    writeFileSync(file, after.replace(/\S{8}\n$/, 'AAAAAAA=\n'))
    assert.match((await judge(trail, { key: both })).findings[0]?.text ?? '', /wrong signature/)
    assert.deepEqual((await judge(trail)).findings, [], 'who does not know the key ignores it')
  })

  it('proves single lines, of any length, and refuses what was changed in a proof', async () => {
    const trail = await newTrail(300)
    const long = `{"type":"CONFIG_CHANGE","after":"${'x'.repeat(70_000)}"}\n`
    assert.throws(() => proveLines(trail.directory, [Buffer.from(long)]), /not sealed yet/)
    const line = Buffer.from(trail.lines[500]!)
    const [proof = ''] = proveLines(trail.directory, [line])
    const key = trustedKey(trail.vkey)
    assert.deepEqual(
      checkProofs(proof, key).proven.map(({ index, line: proven }) => [index, proven]),
      [[500, trail.lines[500]]],
    )
    const other = proof.replace(line.toString('base64'), Buffer.from(trail.lines[501]!).toString('base64'))
    for (const wrong of [
      proof.replace('index 500', 'index 501'),
      other,
      proof.replace('index', 'indx'),
      '',
    ]) {
      const { proven, faults } = checkProofs(wrong, key)
      assert.deepEqual([proven.length, faults.length], [0, 1])
    }
  })
})
