import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { hash } from 'node:crypto'
import fs from 'node:fs'
import { dirname, join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { gzipSync } from 'node:zlib'
import { makeStampAuthority } from '../../audit/witness/stamps/stamp-authority.test-support.ts'
import { keepStamp, stampsDirectory } from '../../audit/witness/stamps/stamp-files.ts'
import { stampRequest } from '../../audit/witness/stamps/stamp-rounds.ts'
import { skipWithout } from '../../e2e/other-programs.ts'
import { SealedTrail } from '../../evidence/sealed-trail.test-support.ts'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import { countersign, PROGRAM } from '../program.test-support.ts'

describe('the output of the audit commands', () => {
  const home = temporaryDirectory({ after })
  const trail = new SealedTrail(join(home, 'trail'))

  before(async () => {
    trail.start()
    trail.exchanges(3000)
    await trail.end()
  })

  function run(words: readonly string[], stdout: number | 'pipe' = 'pipe', stderr: number | 'pipe' = 'pipe') {
    return spawnSync(process.execPath, [PROGRAM, ...words], {
      encoding: 'utf8',
      stdio: ['ignore', stdout, stderr],
    })
  }

  const exported = ['audit', 'export', '--to', join(home, 'exported'), trail.file]
  const commands = [
    ['--version'],
    ['audit', 'verify', '--help'],
    ['audit', 'verify', '--key', trail.vkey, trail.file],
    ['audit', 'find', '--status', '200', trail.file],
    ['audit', 'report', '--day', '2026-11-19', trail.file],
    ['audit', 'report', '--json', trail.file],
    ['audit', 'prove', '--request', 'request-7', trail.file],
    ['audit', 'key', '--show', trail.keyFile],
    exported,
  ]

  it('that a full disk does not take is a fault in one sentence, whatever the command', () => {
    const full = fs.openSync('/dev/full', 'w')
    for (const words of commands) {
      const { status, stderr } = run(words, full)
      assert.notEqual(status, 0, words.join(' '))
      assert.match(stderr, /^the output cannot be written: ENOSPC[^\n]*\n$/m, words.join(' '))
      assert.equal(stderr.split('\n').filter((line) => line !== '').length, 1, stderr)
    }
    fs.closeSync(full)
  })

  it('may lose its reader, which is no fault', () => {
    const command = `'${process.execPath}' '${PROGRAM}' audit find --status 200 '${trail.file}' | head -1`
    const { status, stdout, stderr } = spawnSync('bash', ['-c', command], { encoding: 'utf8' })
    assert.deepEqual([status, stdout.split('\n').length, stderr], [0, 2, ''])
  })

  it('is written while the trail is read, so that it need not fit into memory, and reading ends with the reader', () => {
    const file = join(home, 'long', 'audit.ndjson')
    fs.mkdirSync(dirname(file))
    fs.cpSync(trail.file, `${file}.2`)
    // Whoever reads this segment reports a fault.
    fs.writeFileSync(`${file}.1.gz`, gzipSync(fs.readFileSync(trail.file)).subarray(0, 10_000))
    fs.writeFileSync(file, '')
    const words = ['audit', 'find', '--status', '200', file]
    assert.match(run(words).stderr, / cannot go on: .*\.1\.gz cannot be read: .* too early/)
    const command = `'${process.execPath}' '${PROGRAM}' ${words.join(' ')} | head -1`
    const { status, stdout, stderr } = spawnSync('bash', ['-c', command], { encoding: 'utf8' })
    assert.deepEqual([status, stdout.split('\n').length, stderr], [0, 2, ''])
  })

  it('of verify names the checkpoint that was given, and the first and last of many time stamps', {
    skip: skipWithout('openssl'),
  }, async () => {
    const stamped = new SealedTrail(join(home, 'stamped'))
    const authority = makeStampAuthority(fs.mkdtempSync(join(home, 'authority')))
    const stamp = async () => {
      stamped.exchange()
      await stamped.seal()
      const bytes = stamped.checkpoints.at(-1) ?? assert.fail()
      const request = stampRequest(hash('sha256', bytes, 'buffer'), Buffer.of(7), undefined)
      const response = await authority.respond(request)
      keepStamp(stampsDirectory(stamped.directory), stamped.sealedSize, bytes, response)
      return join(stampsDirectory(stamped.directory), `${stamped.sealedSize}.checkpoint`)
    }
    const files = [await stamp(), await stamp(), await stamp(), await stamp()]
    const words = ['audit', 'verify', '--key', stamped.vkey, '--stamp-authority', authority.caFile]
    const named = async (...flags: string[]) => {
      const { stdout } = await countersign([...words, ...flags, stamped.file])
      return [...stdout.matchAll(/^others: .*: (.*)$/gm)].map(([, file]) => file)
    }
    assert.deepEqual(await named(), [files[0], files[3]])
    assert.deepEqual(await named('--checkpoint', files[1] ?? ''), [files[1], files[0], files[3]])
  })

  it('that standard error does not take makes the exit status 2, which says nothing against the evidence', () => {
    const full = fs.openSync('/dev/full', 'w')
    assert.equal(run(['audit', 'verify', '--key', trail.vkey, join(home, 'none')], 'pipe', full).status, 2)
    fs.closeSync(full)
  })

  it('of an export has exit status 0 when it is whole, 1 where trail and log disagree, and 2 where a file cannot be used', async () => {
    const [good, log] = [await countersign(exported), trail.directory]
    assert.deepEqual([good.status, good.stderr], [0, ''])
    const help = (await countersign(['audit', 'export', '--help'])).stdout
    assert.match(
      help,
      /1 the trail differs from its log, or the log is damaged; 2 .*a file cannot be read or written/,
    )
    const unwritable = await countersign(['audit', 'export', '--to', join(trail.file, 'x'), trail.file])
    assert.deepEqual(
      [unwritable.status, /cannot go on: .*(ENOTDIR|EEXIST)/.test(unwritable.stderr)],
      [2, true],
    )
    const other = join(home, 'other', 'audit.ndjson')
    fs.mkdirSync(dirname(other))
    const lines = fs.readFileSync(trail.file, 'utf8').split('\n')
    const changed = lines.toSpliced(100, 1, '{"type":"API_REQUEST"}').join('\n')
    for (const text of [changed, lines.slice(0, 100).join('\n')]) {
      fs.writeFileSync(other, text)
      const { status, stderr } = await countersign([
        'audit',
        'export',
        '--log',
        log,
        '--to',
        join(home, 'x'),
        other,
      ])
      assert.deepEqual([status, /run "audit verify"\n$/.test(stderr)], [1, true], stderr)
    }
    const none = await countersign([
      'audit',
      'export',
      '--log',
      join(home, 'none'),
      '--to',
      join(home, 'x'),
      other,
    ])
    assert.deepEqual([none.status, /none\/checkpoint/.test(none.stderr)], [2, true], none.stderr)
  })

  it('of a proof or an export names the damaged file of the log, and has exit status 1', async () => {
    for (const [damaged, damage] of [
      ['checkpoint', (file: string) => fs.writeFileSync(file, 'damaged')],
      [join('tile', '1'), (file: string) => fs.rmSync(file, { recursive: true })],
    ] as const) {
      const log = join(home, 'damaged')
      fs.cpSync(trail.directory, log, { recursive: true })
      damage(join(log, damaged))
      for (const words of [
        ['prove', '--request', 'request-2900'],
        ['export', '--to', join(home, 'y')],
      ]) {
        const { status, stderr } = await countersign(['audit', ...words, '--log', log, trail.file])
        assert.deepEqual([status, stderr.includes(join(log, damaged))], [1, true], `${words[0]}: ${stderr}`)
      }
    }
  })
})
