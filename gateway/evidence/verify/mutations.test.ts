import assert from 'node:assert/strict'
import {
  existsSync,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { gunzipSync, gzipSync, zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { withoutSyncs } from '../../audit/commit/power.test-support.ts'
import { makeSealKey, readSealKey } from '../../audit/seals/seal-key.ts'
import { checkpointFile, partialTiles, TILE_WIDTH, tilePath } from '../../audit/seals/tiles.ts'
import { LONGER } from '../../e2e/long-runs.ts'
import { SealedTrail } from '../sealed-trail.test-support.ts'
import { trailsOf } from '../trail-files.ts'
import { type Random, randomFrom } from './random.test-support.ts'
import { trustedKey } from './trusted-key.ts'
import { verifyTrail } from './verify-trail.ts'

/** With TEST_LONG=100: 10,000 mutations and 1,000 trails that nobody touched. */
const MUTATIONS = 100 * LONGER
const UNTOUCHED = 10 * LONGER
const SEED = 20261122
const timeout = 120_000 + 20_000 * LONGER

const home = mkdtempSync(join(tmpdir(), 'mutations-'))
process.on('exit', () => rmSync(home, { recursive: true }))
let trails = 0

/** A trail that was rotated, compressed, pruned, crashed and recovered at random. */
async function makeTrail(random: Random, exchanges: number): Promise<SealedTrail> {
  const trail = new SealedTrail(join(home, String(++trails)))
  trail.start()
  await trail.seal()
  for (let i = 0; i < exchanges; i++) {
    trail.exchange([200, 401, 429][random.below(3)])
    if (random.chance(0.1)) await trail.seal()
    if (random.chance(0.02)) await trail.rotate((['none', 'zstd', 'gzip'] as const)[random.below(3)])
    // A crash: whatever was open gets its response at the next start.
    if (random.chance(0.02)) trail.start()
    if (trail.closed.length > 2 && random.chance(0.05)) await trail.prune()
  }
  return trail
}

async function judge(trail: SealedTrail, key = trail.vkey) {
  const [files] = await trailsOf([trail.file])
  const { directory } = trail
  return verifyTrail({ segments: files!.segments, isPart: false, directory, key: trustedKey(key) })
}

const showAll = (verdict: unknown) => JSON.stringify(verdict, null, 1)

describe('a trail that nobody touched', () => {
  it('is proven, whatever happened to its gateway', { timeout }, async (t) => {
    withoutSyncs(t)
    const random = randomFrom(SEED)
    for (let run = 0; run < UNTOUCHED; run++) {
      const trail = await makeTrail(random, 10 + random.below(run % 10 === 0 ? 500 : 60))
      const isOrderly = random.chance(0.5)
      if (isOrderly) await trail.end()
      // A crash may leave a torn last line, no part of which is sealed.
      else if (random.chance(0.5)) trail.append('{"type":"API_REQ')
      const verdict = await judge(trail)
      assert.deepEqual(verdict.findings, [], `run ${run}`)
      assert.deepEqual(verdict.warnings, [], `run ${run}`)
      assert.equal(verdict.checkpoint?.size, trail.sealedSize)
      assert.match(verdict.tail, isOrderly ? /^sealed to the end$/ : /^(un)?sealed/)
      rmSync(join(home, String(trails)), { recursive: true })
    }
  })
})

interface Segment {
  readonly path: string
  readonly lines: string[]
}

const pack = (path: string, text: string) => {
  const bytes = Buffer.from(text, 'latin1')
  if (path.endsWith('.zst')) return zstdCompressSync(bytes)
  return path.endsWith('.gz') ? gzipSync(bytes) : bytes
}
const unpack = (path: string) => {
  const bytes = readFileSync(path)
  if (path.endsWith('.zst')) return zstdDecompressSync(bytes).toString('latin1')
  return (path.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString('latin1')
}

/** A trail that is restored after each mutation. */
class Victim {
  readonly trail: SealedTrail
  readonly segments: Segment[]
  readonly #saved = new Map<string, Buffer>()
  /** Number of the lines present that are sealed. */
  readonly sealedLines: number

  private constructor(trail: SealedTrail, paths: readonly string[]) {
    this.trail = trail
    this.segments = paths.map((path) => ({ path, lines: unpack(path).split(/(?<=\n)/) }))
    const lines = this.segments.flatMap((segment) => segment.lines).length
    this.sealedLines = lines - (trail.lines.length - trail.sealedSize)
    for (const path of [...paths, ...globSync(`${trail.directory}/**/*`)]) {
      if (statSync(path).isFile()) this.#saved.set(path, readFileSync(path))
    }
  }

  static async of(trail: SealedTrail): Promise<Victim> {
    const [files] = await trailsOf([trail.file])
    return new Victim(
      trail,
      files!.segments.map(({ path }) => path),
    )
  }

  restore(): void {
    for (const [path, bytes] of this.#saved) {
      if (!existsSync(path) || !readFileSync(path).equals(bytes)) writeFileSync(path, bytes)
    }
  }

  /** Changes lines, and says where the first difference is. */
  edit(change: (lines: string[]) => void, segment: Segment): { file: string; line: number } | 'same' {
    const lines = [...segment.lines]
    change(lines)
    const text = lines.join('')
    if (text === segment.lines.join('')) return 'same'
    writeFileSync(segment.path, pack(segment.path, text))
    const after = this.segments.map((one) =>
      one === segment ? text.split(/(?<=\n)/).filter(Boolean) : one.lines,
    )
    const before = this.segments.flatMap((one) => one.lines)
    const places = after.flatMap((part, i) =>
      part.map((_, line) => ({ file: this.segments[i]!.path, line: line + 1 })),
    )
    const flat = after.flat()
    const at = flat.findIndex((line, i) => line !== before[i])
    // If the last sealed line is doubled, the difference is behind the checkpoint.
    if (at >= this.sealedLines) return 'same'
    return places[at === -1 ? places.length - 1 : at] ?? { file: segment.path, line: 1 }
  }

  /** A segment, and one of its sealed lines. */
  pick(random: Random): { segment: Segment; line: number } {
    let line = random.below(this.sealedLines)
    for (const segment of this.segments) {
      if (line < segment.lines.length) return { segment, line }
      line -= segment.lines.length
    }
    throw new Error('no such line')
  }

  /** Tiles that the checkpoint is made of. */
  tiles(): string[] {
    const size = this.trail.sealedSize
    const first = this.trail.lines.length - this.segments.flatMap((segment) => segment.lines).length
    const full = Math.floor(size / TILE_WIDTH)
    const names = partialTiles(size).map(({ level, index, width }) => tilePath(level, index, width))
    for (let index = Math.floor(first / TILE_WIDTH); index < full; index++) names.push(tilePath(0, index))
    return names.map((name) => join(this.trail.directory, name))
  }
}

type Expected = { file: string; line: number } | 'a finding' | 'same'

const flip = (bytes: Buffer, random: Random) => {
  const at = random.below(bytes.length)
  bytes[at] = bytes[at]! ^ (1 << random.below(8))
}

/** Each changes one thing, and says what must be named. */
const MUTATIONS_OF: Readonly<Record<string, (victim: Victim, random: Random) => Expected>> = {
  'a bit of a line': (victim, random) => {
    const { segment, line } = victim.pick(random)
    return victim.edit((lines) => {
      const bytes = Buffer.from(lines[line]!, 'latin1')
      flip(bytes, random)
      lines[line] = bytes.toString('latin1')
    }, segment)
  },
  'a line removed': (victim, random) => {
    const { segment, line } = victim.pick(random)
    return victim.edit((lines) => lines.splice(line, 1), segment)
  },
  'lines removed': (victim, random) => {
    const { segment, line } = victim.pick(random)
    return victim.edit((lines) => lines.splice(line, 1 + random.below(20)), segment)
  },
  'two lines swapped': (victim, random) => {
    const { segment, line } = victim.pick(random)
    const other = random.chance(0.5) ? line + 1 : random.below(segment.lines.length)
    return victim.edit((lines) => {
      if (lines[other] === undefined) return
      ;[lines[line], lines[other]] = [lines[other], lines[line]!]
    }, segment)
  },
  'a line twice': (victim, random) => {
    const { segment, line } = victim.pick(random)
    return victim.edit((lines) => lines.splice(line, 0, lines[line]!), segment)
  },
  'a line added': (victim, random) => {
    const { segment, line } = victim.pick(random)
    return victim.edit(
      (lines) => lines.splice(line, 0, segment.lines[line]!.replace('GET', 'PUT').replace('AUDIT', 'API')),
      segment,
    )
  },
  'a line of another place added': (victim, random) => {
    const { segment, line } = victim.pick(random)
    const from = victim.pick(random)
    return victim.edit((lines) => lines.splice(line, 0, from.segment.lines[from.line]!), segment)
  },
  'the end cut': (victim, random) => {
    const { segment, line } = victim.pick(random)
    if (segment !== victim.segments.at(-1)) return victim.edit((lines) => lines.splice(line), segment)
    return (
      victim.edit((lines) => {
        const rest = lines.splice(line).join('')
        const kept = rest.slice(0, random.below(segment.lines[line]!.length))
        if (kept !== '') lines.push(kept)
      }, segment) && 'a finding'
    )
  },
  'a segment removed': (victim, random) => {
    const segment = victim.segments[random.below(victim.segments.length - 1)]!
    rmSync(segment.path)
    return 'a finding'
  },
  'a bit of a tile': (victim, random) => {
    const tiles = victim.tiles()
    const tile = tiles[random.below(tiles.length)]!
    const bytes = readFileSync(tile)
    flip(bytes, random)
    writeFileSync(tile, bytes)
    return 'a finding'
  },
  'a tile cut or removed': (victim, random) => {
    const tiles = victim.tiles()
    const tile = tiles[random.below(tiles.length)]!
    if (random.chance(0.5)) rmSync(tile)
    else truncateSync(tile, random.below(statSync(tile).size))
    return 'a finding'
  },
  'two tiles exchanged': (victim, random) => {
    const tiles = victim.tiles()
    const [a, b] = [tiles[random.below(tiles.length)]!, tiles[random.below(tiles.length)]!]
    if (a === b) return 'same'
    const bytes = readFileSync(a)
    writeFileSync(a, readFileSync(b))
    writeFileSync(b, bytes)
    return 'a finding'
  },
  'an old checkpoint put back': (victim, random) => {
    const { checkpoints, directory } = victim.trail
    writeFileSync(checkpointFile(directory), checkpoints[random.below(checkpoints.length - 1)]!)
    return 'a finding'
  },
  'a bit of the checkpoint': (victim, random) => {
    const file = checkpointFile(victim.trail.directory)
    const bytes = readFileSync(file)
    flip(bytes, random)
    writeFileSync(file, bytes)
    return 'a finding'
  },
  'the key exchanged': (victim, random) => {
    const file = join(home, `other-${random.below(1e9)}.pem`)
    makeSealKey(file)
    const note = readFileSync(checkpointFile(victim.trail.directory), 'utf8').split('\n')
    const checkpoint = { size: Number(note[1]), root: Buffer.from(note[2]!, 'base64') }
    const other = readSealKey(file, random.chance(0.5) ? victim.trail.key.origin : undefined)
    writeFileSync(checkpointFile(victim.trail.directory), other.seal(checkpoint))
    rmSync(file)
    return 'a finding'
  },
}

describe('a sealed trail that somebody changed', () => {
  it('is never proven, and the first line that was changed is named', { timeout }, async (t) => {
    withoutSyncs(t)
    const random = randomFrom(SEED + 1)
    const kinds = Object.keys(MUTATIONS_OF)
    const missed: string[] = []
    let victim: Victim | undefined
    for (let run = 0; run < MUTATIONS; run++) {
      if (run % 50 === 0) {
        const trail = await makeTrail(random, 200 + random.below(400))
        await trail.rotate()
        trail.exchange()
        await trail.end()
        victim = await Victim.of(trail)
      }
      const kind = kinds[run % kinds.length]!
      const expected = MUTATIONS_OF[kind]!(victim!, random)
      if (expected !== 'same') {
        const problem = await missing(victim!, expected)
        if (problem !== undefined) missed.push(`${run}, ${kind}: ${problem}`)
      }
      victim!.restore()
      assert.ok(missed.length < 5, missed.join('\n'))
    }
    assert.deepEqual(missed, [])
  })

  async function missing({ trail }: Victim, expected: Expected): Promise<string | undefined> {
    let verdict: Awaited<ReturnType<typeof judge>>
    try {
      verdict = await judge(trail)
    } catch (error) {
      return `${(error as Error).stack}`
    }
    const [first] = verdict.findings
    if (first === undefined) return `not noticed: ${showAll(verdict)}`
    if (typeof expected !== 'object') return undefined
    const { file, line } = first.place ?? {}
    return file === expected.file && line === expected.line
      ? undefined
      : `${showAll(expected)} expected, and named: ${showAll(verdict.findings)}`
  }
})
