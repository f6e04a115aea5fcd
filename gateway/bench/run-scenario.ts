import { mkdirSync, mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import type { Tokens } from './bench-tokens.ts'
import type { CertificateFiles } from './certificate.ts'
import type { Child } from './child.ts'
import type { Contender, RunningContender } from './contender.ts'
import { refusesForgery } from './forgery.ts'
import { familyOf, peakBytesOf } from './kernel.ts'
import type { LoadJob, LoadResult } from './load-job.ts'
import { carryOut, measureOf } from './measure.ts'
import { carryOutBy } from './other-generators.ts'
import { type EntryReport, type Measure, SATURATION, type ScenarioReport } from './report.ts'
import type { Entry, Scenario } from './scenarios.ts'
import { spreadOf } from './statistics.ts'

/** What all scenarios share. */
export interface Field {
  readonly dir: string
  readonly load: Child
  readonly upstreamPort: number
  readonly upstreamTlsPort: number
  readonly certificate: CertificateFiles
  readonly tokens: Tokens
  readonly rounds: number
  readonly measureMs: number
  readonly warmUps: number
  /** The contender's processor. */
  readonly cpus: string | undefined
  readonly say: (line: string) => void
}

/** Node compiles hot code only after many calls. */
const WARM_UP_RESPONSES = 60_000
const MAX_WARM_UP_CONNECTIONS = 512
const WARM_UP_MS = 300

interface Runner {
  readonly entry: Entry
  running: RunningContender | undefined
  readonly measures: Measure[]
  peakBytes: number | undefined
  skipped: string | undefined
}

/** Starts, measures in turns and ends the contenders. One that fails is left out, and the reason is reported. */
export async function runScenario(scenario: Scenario, field: Field): Promise<ScenarioReport> {
  field.say(`${scenario.id}: ${scenario.title}`)
  const runners = scenario.entries.map(
    (entry): Runner => ({
      entry,
      running: undefined,
      measures: [],
      peakBytes: undefined,
      skipped: undefined,
    }),
  )
  const starts = Math.min(scenario.starts, field.rounds)
  const roundsUntil = (start: number) => Math.floor((field.rounds * start) / starts)
  for (let start = 0; start < starts; start++) {
    const [before, until] = [roundsUntil(start), roundsUntil(start + 1)]
    await runOnce({ scenario, runners, field, rounds: { first: before + 1, count: until - before } })
  }
  const { id, title, references } = scenario
  return { id, title, references, entries: runners.map(reportOf) }
}

interface Run {
  readonly scenario: Scenario
  readonly runners: readonly Runner[]
  readonly field: Field
  readonly rounds: { readonly first: number; readonly count: number }
}

async function runOnce(run: Run): Promise<void> {
  const { scenario, runners, field } = run
  const dir = mkdtempSync(join(field.dir, `${scenario.id}-`))
  try {
    for (const [index, runner] of runners.entries()) {
      if (runner.skipped !== undefined) continue
      await guarded(runner, field, () => start(runner, scenario, { ...field, dir: join(dir, String(index)) }))
    }
    await takeTurns(run)
    for (const runner of runners) {
      // Throws for a contender that has ended.
      await guarded(runner, field, async () => {
        if (runner.running === undefined) return
        runner.peakBytes = Math.max(runner.peakBytes ?? 0, peakBytesOf(membersOf(runner.running)))
      })
    }
  } finally {
    await Promise.all(runners.map(({ running }) => running?.end()))
    for (const runner of runners) runner.running = undefined
    // The directory stays until all is measured: after thousands of removals, ext4 without a journal takes minutes to
    // make a file.
  }
}

function reportOf({ entry, measures, peakBytes, skipped }: Runner): EntryReport {
  return { name: entry.name, measures, peakBytes, skipped }
}

async function start(runner: Runner, scenario: Scenario, field: Field): Promise<void> {
  const { contender, env } = runner.entry
  if (contender.version() === undefined) throw new Error('not installed')
  mkdirSync(field.dir, { recursive: true })
  const running = await contender.start({
    dir: field.dir,
    upstreamPort: scenario.upstreamTls ? field.upstreamTlsPort : field.upstreamPort,
    upstreamCaFile: scenario.upstreamTls ? field.certificate.caFile : undefined,
    tls: scenario.tls ? field.certificate : undefined,
    http2: scenario.streams !== undefined,
    tokens: field.tokens,
    gatewayEnv: env,
    cpus: scenario.pinned ? field.cpus : undefined,
  })
  runner.running = running
  for (const port of contender.authenticates ? running.ports : []) {
    if (await refusesForgery(port, scenario.request, field.tokens, scenario.tls)) continue
    throw new Error('lets a forged token through')
  }
  const job = jobOf(scenario, { contender, running }, field)
  const connections = Math.min(job.connections, MAX_WARM_UP_CONNECTIONS)
  await warmUp({ ...job, connections }, { scenario, field }, runner.entry.programs)
}

/** @param programs how many compile hot code, each for itself */
async function warmUp(job: LoadJob, run: Pick<Run, 'scenario' | 'field'>, programs: number): Promise<void> {
  let responses = 0
  for (let i = 0; i < run.field.warmUps * programs && responses < WARM_UP_RESPONSES * programs; i++) {
    responses += (await generate(job, run)).responses
  }
}

function generate(job: LoadJob, { scenario, field }: Pick<Run, 'scenario' | 'field'>): Promise<LoadResult> {
  const { generator } = scenario
  return generator === undefined ? carryOut(field.load, job) : carryOutBy(generator, job)
}

function membersOf({ pids }: RunningContender): readonly number[] {
  return pids.flatMap(familyOf)
}

async function takeTurns(run: Run): Promise<void> {
  const { scenario, runners } = run
  const { loads } = scenario
  if (typeof loads !== 'string') {
    for (const rate of loads) await takeRounds(`${rate} requests a second`, () => rate, run)
    return
  }
  await takeRounds(SATURATION, () => undefined, run)
  if (loads === 'saturation') return
  const saturation = new Map(runners.map((runner) => [runner, saturationOf(runner)]))
  const own = (share: number) => (runner: Runner) => (saturation.get(runner) ?? 0) * share
  const common = Math.min(...[...saturation.values()].filter((rate) => rate > 0)) / 2
  await takeRounds('50 % of its own saturation', own(0.5), run)
  await takeRounds('80 % of its own saturation', own(0.8), run)
  await takeRounds('one rate for all, 50 % of the slowest', () => common, run)
}

function saturationOf({ measures }: Runner): number {
  const rates = measures.filter(({ load }) => load === SATURATION).map(({ perSecond }) => perSecond)
  return rates.length === 0 ? 0 : spreadOf(rates).median
}

/** @param rateOf requests per second of an open loop; undefined for a closed one */
async function takeRounds(
  load: string,
  rateOf: (runner: Runner) => number | undefined,
  { scenario, runners, field, rounds }: Run,
): Promise<void> {
  for (let round = rounds.first; round < rounds.first + rounds.count; round++) {
    for (const runner of runners) {
      const { running } = runner
      if (running === undefined || runner.skipped !== undefined) continue
      await guarded(runner, field, async () => {
        const job = {
          ...jobOf(scenario, { contender: runner.entry.contender, running }, field),
          perSecond: rateOf(runner),
        }
        const measure = measureOf(await generate(job, { scenario, field }), { load, round })
        runner.measures.push(measure)
        running.tidy()
        field.say(lineOf(runner, measure))
      })
    }
  }
}

function jobOf(
  scenario: Scenario,
  { contender, running }: { readonly contender: Contender; readonly running: RunningContender },
  field: Field,
): LoadJob {
  const { algorithm, ...request } = scenario.request
  const tokensFile = field.tokens.files[algorithm]
  return {
    ports: running.ports,
    request: { ...request, tokensFile, ...contender.request },
    signingKeyFile: field.tokens.signingKeyFile,
    connections: scenario.connections,
    tls: scenario.tls,
    streams: scenario.streams,
    renewal: scenario.renewal,
    idleConnections: scenario.idleConnections,
    warmUpMs: WARM_UP_MS,
    measureMs: field.measureMs,
    perSecond: undefined,
    pids: membersOf(running),
    ...(running.storePids && { storePids: running.storePids }),
  }
}

/** Reports a failed contender and leaves it out. */
async function guarded(runner: Runner, field: Field, action: () => Promise<void>): Promise<void> {
  try {
    await action()
  } catch (error) {
    runner.skipped = error instanceof Error ? error.message : String(error)
    field.say(`  ${runner.entry.name}: skipped: ${runner.skipped}`)
    await runner.running?.end()
    runner.running = undefined
  }
}

function lineOf({ entry }: Runner, measure: Measure): string {
  const { load, round, userUs, systemUs, storeUs, perSecond, latencyUs } = measure
  const store = storeUs === undefined ? '' : `, store ${storeUs.toFixed(1)} µs`
  const cpu = `${(userUs + systemUs).toFixed(1)} µs (${userUs.toFixed(1)} + ${systemUs.toFixed(1)})${store}`
  const waits =
    latencyUs === undefined ? '' : `, p50 ${latencyUs.p50} p99 ${latencyUs.p99} p99.9 ${latencyUs.p999} µs`
  return `  ${round} ${load}: ${entry.name}: ${cpu}, ${perSecond.toFixed(0)}/s${waits}`
}
