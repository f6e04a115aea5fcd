import assert from 'node:assert/strict'
import fs, { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { responseTo } from '../../audit/audit-records.ts'
import { withoutSyncs } from '../../audit/commit/power.test-support.ts'
import { continueTrail, openTrail } from '../../audit/open-trail.ts'
import { recover } from '../../audit/recovery/recovery.ts'
import { type ForeignWrite, sealRecord } from '../../audit/seal-records.ts'
import type { SealKey } from '../../audit/seals/seal-key.ts'
import { sealProgress } from '../../audit/seals/seal-progress.ts'
import { newSealKey, sealsFor } from '../../audit/seals/sealed-trail.test-support.ts'
import { Sealer } from '../../audit/seals/sealer.ts'
import { formatVerifierKey } from '../../audit/seals/signed-note.ts'
import { logDirectory } from '../../audit/seals/tiles.ts'
import { stampedPath } from '../../audit/segments/segment.ts'
import { afterTimeOf, endOf, requestLine } from '../../audit/trail.test-support.ts'
import { Trail } from '../../audit/trail.ts'
import { LONGER } from '../../e2e/long-runs.ts'
import { trailsOf } from '../trail-files.ts'
import { type Random, randomFrom } from './random.test-support.ts'
import { trustedKey } from './trusted-key.ts'
import { verifyTrail } from './verify-trail.ts'

/** With TEST_LONG=20: 1,000 trails that others have written to, and 1,000 that nobody has touched. */
const CASES = 50 * LONGER
const SEED = 20261126
const timeout = 120_000 + 30_000 * LONGER
const HOUR_MS = 3_600_000

const home = mkdtempSync(join(tmpdir(), 'foreign-cases-'))
process.on('exit', () => rmSync(home, { recursive: true }))

/** A gateway's trail with its sealer, both in this thread. */
class Run {
  readonly file: string
  readonly key: SealKey
  readonly foreign: ForeignWrite[] = []
  readonly #options: ConstructorParameters<typeof Trail>[0]
  trail!: Trail
  #sealer!: Sealer
  #last: string[] | undefined
  /** How far the clock of the trail is ahead. */
  aheadMs = 0
  #nowMs = 0
  #requests = 0
  #rotations = 0

  constructor(dir: string) {
    mkdirSync(dir)
    this.file = join(dir, 'audit.ndjson')
    this.key = newSealKey(dir)
    this.#options = {
      file: this.file,
      isSealed: true,
      onFault: assert.fail,
      onRecord: () => {},
      onForeign: (what) => this.foreign.push(what),
      now: () => Date.now() + this.aheadMs,
    }
  }

  /** @param how `mortal`: without a lock, so that another may begin after a crash */
  start(how: 'mortal' | 'locked' | 'continued'): void {
    if (how === 'mortal') {
      const recovery = recover(this.file)
      this.trail = new Trail(this.#options).begin(recovery)
    } else if (how === 'locked') this.trail = openTrail(this.#options)
    else {
      const { trail, inherited } = continueTrail(this.#options)
      this.trail = trail
      inherited.end()
    }
    this.#last = undefined
    const { trail } = this
    const progress = sealProgress()
    const sealer = new Sealer({
      file: this.file,
      directory: logDirectory(this.file),
      key: this.key,
      progress,
      now: () => this.#nowMs,
      onSealed: ({ origin, size, root }) =>
        this.#settle(
          trail,
          sealRecord(new Date().toISOString(), origin, {
            type: 'AUDIT_SEAL',
            size,
            root: root.toString('base64'),
          }),
        ),
      onGap: () => {},
      onReadBack: (records) =>
        this.#settle(
          trail,
          sealRecord(new Date().toISOString(), this.key.origin, { type: 'AUDIT_READ_BACK', records }),
        ),
      onFault: () => {},
    })
    this.#sealer = sealer
    const seals = sealsFor(sealer, trail, () => this.#nowMs, progress)
    trail.sealWith({
      ...seals,
      finish: async () => {
        const lines: string[] = []
        this.#last = lines
        await sealer.finish()
        return lines.slice(-1)
      },
    })
  }

  #settle(trail: Trail, line: string): void {
    if (this.#last === undefined) trail.settle(line)
    else this.#last.push(line)
  }

  async exchange(count: number, ageMs = 0): Promise<void> {
    for (let i = 0; i < count; i++) {
      const line = requestLine(`request-${this.#requests++}`, new Date(Date.now() - ageMs).toISOString())
      await endOf(this.trail.append(line))
      await endOf(this.trail.settle(responseTo(line, 200, 1.5)))
    }
  }

  async take(): Promise<void> {
    while (await this.#sealer.poll());
    await turn()
  }

  async seal(): Promise<void> {
    await this.take()
    this.#nowMs += 1000
    await this.take()
  }

  /** Waits until the gateway has looked at its file, and later writes have another time. */
  pause(file: string): void {
    this.trail.maintain()
    afterTimeOf(file)
  }

  rename(): string {
    const path = stampedPath(this.file, Date.now() + this.#rotations++ * 1000)
    renameSync(this.file, path)
    return path
  }

  async end(): Promise<void> {
    await this.trail.end('end')
    this.#sealer.close()
  }

  crash(): void {
    this.#sealer.close()
  }

  async verify() {
    const [files] = await trailsOf([this.file])
    return verifyTrail({
      segments: files?.segments ?? [],
      isPart: false,
      directory: logDirectory(this.file),
      key: trustedKey(formatVerifierKey(this.key.verifier)),
    })
  }
}

let runs = 0
async function begun(random: Random): Promise<Run> {
  const run = new Run(join(home, String(++runs)))
  run.start('mortal')
  await run.exchange(2 + random.below(20), HOUR_MS)
  await run.seal()
  await run.exchange(1 + random.below(6))
  return run
}

const linesIn = (file: string) => readFileSync(file, 'latin1').split(/(?<=\n)/)
/** Rewrites a file in its place, as an editor does that keeps the inode. */
const rewrite = (file: string, lines: readonly string[]) => writeFileSync(file, lines.join(''), 'latin1')

/** What others do to a file. The gateway notices each deed; a deed that keeps the size, only after a pause. */
const DEEDS: Readonly<Record<string, (file: string, random: Random, end: number) => void>> = {
  'appends a note': (file, random) => fs.appendFileSync(file, random.of(['note\n', 'no end of line'])),
  'appends a torn record': (file) => fs.appendFileSync(file, '{"type":"API_REQ'),
  'appends a copied pair with a new id': (file) => {
    const pair = linesIn(file)
      .filter((line) => line.includes('"request-0"') || line.includes('"request-1"'))
      .slice(0, 2)
    fs.appendFileSync(file, pair.join('').replaceAll(/"request-\d"/g, '"request-forged"'), 'latin1')
  },
  'inserts a line': (file, random, end) => {
    const lines = linesIn(file)
    lines.splice(random.below(end), 0, lines[random.below(end)]?.replace('GET', 'PUT') ?? '')
    rewrite(file, lines)
  },
  'overwrites a line in its place': (file, random, end) => {
    const lines = linesIn(file)
    const at = random.below(end)
    lines[at] = lines[at]?.replace(/[a-z](?=[^a-z]*\n$)/, (letter) => (letter === 'x' ? 'y' : 'x')) ?? ''
    rewrite(file, lines)
  },
  'removes a line': (file, random, end) => {
    const lines = linesIn(file)
    lines.splice(random.below(end), 1)
    rewrite(file, lines)
  },
  truncates: (file, random, end) => rewrite(file, linesIn(file).slice(0, random.below(end))),
  'takes it away': (file) => {
    renameSync(file, join(home, 'away'))
    fs.writeFileSync(file, '')
  },
  'puts a file in its place': (file, random, end) => {
    const lines = linesIn(file)
    lines.splice(random.below(end), 1, 'forged\n')
    rewrite(`${file}.new`, lines)
    renameSync(`${file}.new`, file)
  },
}

/** Each does the deed at its moment, and ends the trail. @returns whether the gateway ran, or has started since */
const MOMENTS: Readonly<
  Record<string, (run: Run, deed: (file: string, end?: number) => void) => Promise<boolean>>
> = {
  'before they are taken': async (run, deed) => {
    deed(run.file)
    return goOn(run)
  },
  'between write and seal': async (run, deed) => {
    await run.take()
    deed(run.file)
    return goOn(run)
  },
  'after a seal': async (run, deed) => {
    await run.seal()
    deed(run.file)
    return goOn(run)
  },
  'during a rotation': async (run, deed) => {
    const renamed = run.rename()
    deed(renamed)
    run.trail.reopen()
    return goOn(run)
  },
  'while it is handed over': async (run, deed) => {
    await run.trail.suspend('restart')
    deed(run.file)
    run.start('continued')
    return goOn(run)
  },
  'after a stop': async (run, deed) => {
    await run.end()
    deed(run.file)
    assert.notDeepEqual((await run.verify()).findings, [], 'before the next start')
    run.start('locked')
    return goOn(run)
  },
  // Behind the last seal, verify can then name only lines that no gateway writes.
  'after a crash': async (run, deed) => {
    const { size = 0 } = (await run.verify()).checkpoint ?? {}
    run.crash()
    deed(run.file, size)
    return false
  },
}

async function goOn(run: Run): Promise<boolean> {
  run.trail.maintain()
  // For a minute, a trail that somebody has taken away counts as a rotation.
  run.aheadMs += 60_000
  run.trail.maintain()
  await run.exchange(2)
  await run.seal()
  await run.end()
  return true
}

it('whatever others do to the trail, and whenever, verify names it, and a gateway that runs notices it', {
  timeout,
}, async (t) => {
  withoutSyncs(t)
  const random = randomFrom(SEED)
  const missed: string[] = []
  for (let i = 0; i < CASES; i++) {
    const [what, deed] = random.of(Object.entries(DEEDS))
    const [when, moment] = random.of(Object.entries(MOMENTS))
    // The last line of a crashed gateway can look the same, and the next start cuts it off.
    if (what === 'appends a torn record' && when === 'after a crash') continue
    // This looks like a rotation under way, or like a file that verify is not given.
    if (what === 'takes it away' && ['during a rotation', 'after a crash'].includes(when)) continue
    const run = await begun(random)
    const hasPaused = random.chance(0.5)
    const isRunning = await moment(run, (file, end) => {
      if (hasPaused && when !== 'after a crash') run.pause(file)
      deed(file, random, end ?? linesIn(file).length - 1)
    })
    const { findings } = await run.verify()
    if (findings.length === 0) missed.push(`${i}: ${what} ${when}: not named`)
    // A start notices only what stands behind the end. Verify tells of other changes of a stopped trail.
    const isStopped = ['while it is handed over', 'after a stop'].includes(when)
    const keepsSize = what === 'overwrites a line in its place'
    const isNoticed = isStopped ? what.startsWith('appends') : isRunning && (hasPaused || !keepsSize)
    const isTold = run.foreign.length > 0 || readFileSync(run.file, 'latin1').includes('"removed":true')
    if (isNoticed && !isTold) missed.push(`${i}: ${what} ${when}: not noticed`)
    assert.ok(missed.length < 5, missed.join('\n'))
    rmSync(join(run.file, '..'), { recursive: true })
  }
  assert.deepEqual(missed, [])
})

it('a note that an operator appends costs no seal, and the lines behind it are proven', async (t) => {
  withoutSyncs(t)
  const run = await begun(randomFrom(SEED))
  fs.appendFileSync(run.file, 'note\n')
  const at = linesIn(run.file).length
  await goOn(run)
  const { findings, tail, lines, provenLines } = await run.verify()
  assert.deepEqual(
    findings.map(({ what, place }) => [what, place?.line]),
    [['added', at]],
  )
  assert.deepEqual([tail, provenLines], ['sealed to the end', lines - 2])
})

it('a stranger who writes before each record costs no record or seal, and each foreign line is named', async (t) => {
  withoutSyncs(t)
  const run = await begun(randomFrom(SEED))
  for (let i = 0; i < 20; i++) {
    fs.appendFileSync(run.file, i % 2 === 0 ? 'note\n' : 'no end of line')
    await run.exchange(1)
    if (i === 10) await run.seal()
  }
  await run.end()
  const { findings, lines, provenLines, pairs } = await run.verify()
  assert.ok(pairs > 20)
  // Each of ten notes makes two lines, because the gateway ends it again, except the first, which was set aside.
  // No seal covers the last seal.
  assert.equal(provenLines, lines - 29 - 1)
  assert.deepEqual([findings.length, new Set(findings.map(({ what }) => what))], [20, new Set(['added'])])
})

it('a verdict says for which records the file was trusted, because a gateway crashed before it sealed them', async (t) => {
  withoutSyncs(t)
  const run = await begun(randomFrom(SEED))
  run.crash()
  DEEDS['appends a copied pair with a new id']?.(run.file, randomFrom(SEED), 0)
  run.start('mortal')
  await goOn(run)
  const { findings, warnings } = await run.verify()
  assert.deepEqual(findings, [])
  assert.match(
    warnings.join(),
    /line \d+.*: the gateway had to read \d+ records before this line from the file/,
  )
})

it('a trail that nobody has touched is proven, whatever its gateway went through', { timeout }, async (t) => {
  withoutSyncs(t)
  const random = randomFrom(SEED + 1)
  for (let i = 0; i < CASES; i++) {
    const run = await begun(random)
    for (let steps = random.below(6); steps > 0; steps--) {
      const step = random.of([
        'exchange',
        'take',
        'seal',
        'rotate',
        'rotate late',
        'restart',
        'crash',
        'maintain',
      ])
      if (step === 'exchange') await run.exchange(1 + random.below(9))
      else if (step === 'take') await run.take()
      else if (step === 'seal') await run.seal()
      else if (step === 'maintain') run.trail.maintain()
      else if (step.startsWith('rotate')) {
        run.rename()
        if (step === 'rotate late') {
          run.trail.maintain()
          await run.exchange(1)
        }
        run.trail.reopen()
      } else if (step === 'crash') {
        run.crash()
        if (random.chance(0.3)) fs.appendFileSync(run.file, '{"type":"API_RESP')
        run.start('mortal')
      } else {
        await run.trail.suspend('restart')
        run.start('mortal')
      }
    }
    const isOrderly = random.chance(0.7)
    if (isOrderly) await run.end()
    else run.crash()
    const { findings, tail } = await run.verify()
    assert.deepEqual([findings, run.foreign], [[], []], `case ${i}`)
    if (isOrderly) assert.equal(tail, 'sealed to the end')
    rmSync(join(run.file, '..'), { recursive: true })
  }
})
