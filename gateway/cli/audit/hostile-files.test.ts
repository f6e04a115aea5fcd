import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import fs from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { zstdCompressSync } from 'node:zlib'
import { SealedTrail } from '../../evidence/sealed-trail.test-support.ts'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import { countersign, PROGRAM } from '../program.test-support.ts'

/** Tells the most memory that the program had, in megabytes. */
const TELL_MEMORY = `data:text/javascript,process.on('exit',()=>console.error('MB',process.resourceUsage().maxRSS/1024))`

describe('files that somebody made to keep an auditor busy', () => {
  const home = temporaryDirectory({ after })
  const trail = new SealedTrail(join(home, 'trail'))
  const pipe = join(home, 'pipe')

  before(async () => {
    trail.start()
    trail.exchange()
    await trail.end()
    execFileSync('mkfifo', [pipe])
  })

  function audit(...words: string[]) {
    const options = { encoding: 'utf8', timeout: 60_000, input: '' } as const
    const { stdout, stderr } = spawnSync(
      process.execPath,
      ['--import', TELL_MEMORY, PROGRAM, 'audit', ...words],
      options,
    )
    return { stdout, stderr, megabytes: Number(/^MB (\S+)$/m.exec(stderr)?.[1]) }
  }

  it('a pipe and a device are refused wherever a file may be named', async () => {
    const verify = ['verify', '--key', trail.vkey, trail.file]
    const other = join(home, 'with-a-pipe')
    fs.cpSync(trail.directory, other, { recursive: true })
    fs.rmSync(join(other, 'checkpoint'))
    execFileSync('mkfifo', [join(other, 'checkpoint')])
    for (const words of [
      ['verify', '--key', pipe, trail.file],
      ['verify', '--key', '/dev/zero', trail.file],
      [...verify, '--policy', pipe],
      [...verify, '--checkpoint', pipe],
      [...verify, '--stamp-authority', pipe],
      [...verify, '--log', other],
      ['verify', '--key', trail.vkey, '--proof', pipe],
      ['verify', '--key', trail.vkey, '--proof', '/dev/zero'],
      ['verify', '--key', trail.vkey, pipe],
      ['export', '--to', join(home, 'exported'), '--log', other, trail.file],
      ['prove', '--request', 'request-1', '--log', other, trail.file],
      ['find', '--status', '200', pipe],
      ['report', pipe],
      ['key', '--show', pipe],
    ]) {
      const { status, stderr } = await countersign(['audit', ...words])
      assert.equal(status, 2, `${words.join(' ')}: ${status} ${stderr}`)
      assert.match(stderr, /no regular file/, words.join(' '))
    }
  })

  it('a pipe in the place of an exported file is not waited for', async () => {
    const to = join(home, 'piped')
    fs.mkdirSync(to)
    execFileSync('mkfifo', [join(to, 'checkpoint')])
    const { status, stderr } = await countersign(['audit', 'export', '--to', to, trail.file])
    assert.deepEqual([status, /ENXIO/.test(stderr)], [2, true], stderr)
  })

  it('a line of 20 MB of brackets costs a few times its length of memory, and is no record', () => {
    const file = join(home, 'brackets.ndjson')
    const good = fs.readFileSync(trail.file)
    for (const head of ['', '{"type":"AUDIT_START",', '{"type":"API_RESPONSE","requestId":"request-1",']) {
      fs.writeFileSync(
        file,
        Buffer.concat([good, Buffer.from(head), Buffer.alloc(20_000_000, '['), Buffer.from('\n')]),
      )
      for (const words of [
        ['report', '--day', '2026-11-20', file],
        ['find', '--request', 'request-1', '--everywhere', file],
        ['verify', '--key', trail.vkey, '--log', trail.directory, file],
      ]) {
        const { stdout, stderr, megabytes } = audit(...words)
        assert.ok(
          megabytes < 300,
          `${words.join(' ')}: ${megabytes} MB, ${stdout.slice(0, 99)} ${stderr.slice(0, 99)}`,
        )
      }
    }
  })

  it('a small compressed file of many empty lines is refused at once, by name', async () => {
    const file = join(home, 'lines.ndjson')
    fs.writeFileSync(file, '')
    fs.writeFileSync(`${file}.1.zst`, zstdCompressSync(Buffer.alloc(90_000_000, '\n')))
    for (const words of [['report'], ['find', '--status', '200']]) {
      const { status, stderr } = await countersign(['audit', ...words, file])
      assert.deepEqual(
        [status, /lines.ndjson.1.zst cannot be read: it has more lines/.test(stderr)],
        [2, true],
        stderr,
      )
    }
  })
})
