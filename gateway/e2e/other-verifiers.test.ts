import assert from 'node:assert/strict'
import { randomBytes, randomInt } from 'node:crypto'
import { cpSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { parseCheckpoint } from '../audit/seals/checkpoint.ts'
import { readSealKey } from '../audit/seals/seal-key.ts'
import { newSealKey } from '../audit/seals/sealed-trail.test-support.ts'
import { formatVerifierKey, parseNote } from '../audit/seals/signed-note.ts'
import { call } from './client.ts'
import { LONGER } from './long-runs.ts'
import { describeWithPrograms } from './other-programs.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { runTool } from './secure.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const LAUNCHER = fileURLToPath(new URL('../../launcher/main.mjs', import.meta.url))
const COUNTERSIGN = fileURLToPath(new URL('../cli/countersign.ts', import.meta.url))

/** Checkpoints while the gateway runs. */
const CHECKPOINTS = 3
/** Requests before each checkpoint. Each makes two lines, and all together fill more than two tiles of 256 lines. */
const REQUESTS = 100
/** Bits of the exported log that are changed, one after the other. */
const CHANGES = 4 * LONGER
/** Workers of fsck, which does not end at a wrong file if it has fewer workers than files. */
const WORKERS = 64

/** The text with another letter at this place: A, or B for A. */
function flipped(text: string, at: number): string {
  return `${text.slice(0, at)}${text[at] === 'A' ? 'B' : 'A'}${text.slice(at + 1)}`
}

const SUITE = {
  title: "a trail that Tessera's fsck and Go's sumdb read",
  programs: ['tessera-fsck', 'sumdb-verifier'],
  isListed: LONGER > 1,
} as const

describeWithPrograms(SUITE, (programs) => {
  let upstream: TestUpstream
  let gateway: TestGateway
  let exported: string
  /** The Ed25519 verifier key. */
  let key: string
  let last: string
  /** Files of the log's earlier checkpoints, with their sizes. */
  const earlier: { readonly file: string; readonly size: number }[] = []

  before(async () => {
    upstream = await startUpstream()
    const config = {
      upstream: upstream.url,
      routes: [{ path: '/*', auth: ['none'] }],
      audit: { secondSealKey: 'ml-dsa-44' },
    }
    gateway = await startGateway({ config, env: { GATEWAY_AUDIT_SEALS: 'on' } })
    const checkpoint = join(gateway.dir, 'audit-log', 'checkpoint')
    let asked = 0
    for (let i = 0; i < CHECKPOINTS; i++) {
      await Promise.all(
        Array.from({ length: REQUESTS }, (_, j) =>
          call(`${gateway.url}/${j}`, { headers: { 'x-request-id': `request-${i}-${j}` } }),
        ),
      )
      asked += REQUESTS
      // Waits until all records are sealed.
      const bytes = await until(async () =>
        (await gateway.metric('gateway_audit_tree_size')) > 2 * asked ? readFileSync(checkpoint) : undefined,
      )
      const file = join(gateway.dir, `checkpoint-${i}`)
      writeFileSync(file, bytes)
      earlier.push({ file, size: parseCheckpoint(parseNote(bytes).text).size })
    }
    assert.equal(await gateway.end(), 0)
    exported = join(gateway.dir, 'exported')
    await countersign('export', '--to', exported, gateway.auditFile)
    const shown = await countersign('key', '--show', join(gateway.dir, 'data', 'audit-seal-key.pem'))
    key = shown.split('\n')[0] ?? ''
    writeFileSync(join(gateway.dir, 'vkey'), key)
    last = readFileSync(join(exported, 'checkpoint'), 'utf8')
  })
  after(async () => {
    await gateway?.end('SIGKILL')
    upstream?.close()
  })

  async function countersign(...words: readonly string[]): Promise<string> {
    const { status, output } = await runTool(process.execPath, [LAUNCHER, COUNTERSIGN, 'audit', ...words])
    assert.equal(status, 0, output)
    return output
  }

  async function fsck(directory: string): Promise<string> {
    const args = [`-storage_url=file://${directory}/`, `-public_key=${join(gateway.dir, 'vkey')}`]
    return (await runTool(programs['tessera-fsck'], [...args, `-N=${WORKERS}`, '-ui=false'])).output
  }

  const sumdb = (words: readonly string[], input = '') => runTool(programs['sumdb-verifier'], words, input)

  async function refuses(pattern: RegExp, words: readonly string[], input = ''): Promise<void> {
    const { status, output } = await sumdb(words, input)
    assert.equal(status, 1, output)
    assert.match(output, pattern)
  }

  /** @returns a copy of the exported log with another checkpoint. */
  function withCheckpoint(checkpoint: string): string {
    const directory = join(gateway.dir, 'other')
    cpSync(exported, directory, { recursive: true })
    writeFileSync(join(directory, 'checkpoint'), checkpoint)
    return directory
  }

  it('is accepted as a continuation of each of its checkpoints, with a signature of unknown type', async () => {
    const size = parseCheckpoint(parseNote(Buffer.from(last)).text).size
    assert.ok(size > 2 * 256)
    assert.deepEqual(
      earlier.map((one) => one.size).toSorted((a, b) => a - b),
      [...new Set(earlier.map((one) => one.size))],
    )
    const { status, output } = await sumdb(['log', key, exported, ...earlier.map(({ file }) => file)])
    const wentOn = earlier.map((one) => `goes on from ${one.size}\n`).join('')
    assert.equal(output, `root of ${size}, 1 unknown signatures\nentries ${size}\n${wentOn}`)
    assert.equal(status, 0)
    assert.match(await fsck(exported), new RegExp(`Successfully fsck'd log with size ${size} `))
  })

  it('is refused when any bit of its entries or tiles was changed', async () => {
    const files = globSync('tile/**/*', { cwd: exported, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
    for (const part of ['tile/entries/000', 'tile/0/000', 'tile/1/000.p']) {
      assert.ok(
        files.some((file) => file.startsWith(join(exported, part))),
        files.join(),
      )
    }
    for (let i = 0; i < CHANGES; i++) {
      const file = files[randomInt(files.length)] as string
      const bytes = readFileSync(file)
      const [at, bit] = [randomInt(bytes.length), randomInt(8)]
      const other = Buffer.from(bytes)
      other[at] = (other[at] as number) ^ (1 << bit)
      writeFileSync(file, other)
      const where = `bit ${bit} of byte ${at} of ${file}`
      const { status, output } = await sumdb(['log', key, exported])
      const fscked = await fsck(exported)
      writeFileSync(file, bytes)
      assert.equal(status, 1, `${where}: ${output}`)
      assert.match(output, /refused: /, where)
      assert.match(fscked, /fsck failed: |panic: /, where)
      assert.doesNotMatch(fscked, /Successfully/, where)
    }
  })

  it('is refused with a changed or unsigned checkpoint, and with another key', async () => {
    const [origin, size, root = '', , ed25519 = '', ...others] = last.split('\n')
    const changed = {
      origin: [`${origin}x`, size, root, '', ed25519, ...others],
      size: [origin, Number(size) - 1, root, '', ed25519, ...others],
      root: [origin, size, flipped(root, 0), '', ed25519, ...others],
      signature: [origin, size, root, '', flipped(ed25519, ed25519.length - 20), ...others],
      'no signature': [origin, size, root, '', ...others],
    }
    for (const [name, lines] of Object.entries(changed)) {
      const directory = withCheckpoint(lines.join('\n'))
      await refuses(/refused: .*(signature|checkpoint)/, ['log', key, directory])
      assert.match(await fsck(directory), /fsck failed: failed to fetch and verify checkpoint/, name)
    }
    const home = join(gateway.dir, 'another')
    mkdirSync(home)
    await refuses(/no verifiable signatures/, ['log', formatVerifierKey(newSealKey(home).verifier), exported])
  })

  it('is refused as a continuation of another tree, though its key has signed that tree', async () => {
    const seal = readSealKey(join(gateway.dir, 'data', 'audit-seal-key.pem'))
    const file = join(gateway.dir, 'never')
    writeFileSync(file, seal.seal({ size: earlier[0]?.size ?? 0, root: randomBytes(32) }))
    await refuses(/did not go on from/, ['log', key, exported, file])
    const all = withCheckpoint(
      seal.seal({ size: parseCheckpoint(parseNote(Buffer.from(last)).text).size, root: randomBytes(32) }),
    )
    await refuses(/refused: /, ['log', key, all])
    assert.match(await fsck(all), /fsck failed: /)
  })

  it('proves both records of a request by `audit prove`, and no other records', async () => {
    const proofs = await countersign('prove', '--request', 'request-1-7', gateway.auditFile)
    const lines = readFileSync(gateway.auditFile, 'utf8').split('\n')
    const records = lines.filter((line) => line.includes('"request-1-7"'))
    assert.equal(records.length, 2)
    assert.deepEqual(await sumdb(['proofs', key], proofs), {
      status: 0,
      output: records.map((record) => `${record}\n`).join(''),
    })

    const other = `${lines.find((line) => line.includes('"request-1-8"'))}\n`
    const changes: readonly [RegExp, (found: string, part: string) => string][] = [
      [/^extra .*$/m, () => `extra ${Buffer.from(other).toString('base64')}`],
      [/^index \d+$/m, () => 'index 3'],
      [/^(index \d+\n.*)/m, (found, part) => flipped(part, found.length - 20)],
      [/^(index \d+\n).*\n/m, (_, part) => part],
      [/\n\n(.*\n)\d+\n/, (_, part) => `\n\n${part}7\n`],
    ]
    for (const [pattern, replacement] of changes) {
      const changed = proofs.replace(pattern, replacement)
      assert.notEqual(changed, proofs)
      await refuses(/refused: /, ['proofs', key], changed)
    }
  })
})
