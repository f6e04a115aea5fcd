import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { makeTokens } from './bench-tokens.ts'
import { makeCertificateFiles } from './certificate.ts'
import { firstMessage, startChild } from './child.ts'
import { machineFacts } from './facts.ts'
import { type BenchOptions, parseOptions, USAGE } from './options.ts'
import { renderPicture } from './picture.ts'
import type { Report, ScenarioReport } from './report.ts'
import { renderResults, renderRounds } from './results.ts'
import { type Field, runScenario } from './run-scenario.ts'
import { type Scenario, scenariosOf, TABLE } from './scenarios.ts'

const HERE = fileURLToPath(new URL('.', import.meta.url))
const LOAD = new URL('./load.ts', import.meta.url)
const UPSTREAM = new URL('./bench-upstream.ts', import.meta.url)
const ROOT = fileURLToPath(new URL('../..', import.meta.url))

await main()

/** `npm run bench`: measures everything side by side, then writes page and picture. */
async function main(): Promise<void> {
  const options = optionsOrExit()
  const facts = machineFacts()
  const scenarios = scenariosOf({
    root: resolve(options.root ?? ROOT),
    against: options.against.map((dir) => resolve(dir)),
    ratelimit: options.ratelimit,
  })
    .filter(({ id }) => options.only?.has(id) ?? true)
    .map((scenario) => ({
      ...scenario,
      entries: scenario.entries.filter(({ name }) => options.among?.has(name) ?? true),
    }))
    .filter(({ entries }) => entries.length > 0)
  install(scenarios)
  const dir = mkdtempSync(join(tmpdir(), 'countersign-bench-'))
  process.on('exit', () => rmSync(dir, { recursive: true, force: true }))
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))
  const { field, tokenBytes } = await prepare(dir, scenarios, options)
  const reports: ScenarioReport[] = []
  for (const scenario of scenarios) reports.push(await runScenario(scenario, field))
  publish(options, {
    date: new Date().toISOString(),
    rounds: options.rounds,
    secondsPerRound: options.measureMs / 1000,
    facts: [...facts, ['token', tokenBytes]],
    contenders: contendersOf(scenarios),
    scenarios: reports,
  })
  process.exit(0)
}

function install(scenarios: readonly Scenario[]): void {
  const installers = new Set(scenarios.flatMap(({ entries }) => entries.map((one) => one.contender.install)))
  for (const run of installers) {
    const reason = run?.()
    if (reason !== undefined) say(`not everything can be installed: ${reason}`)
  }
}

function optionsOrExit(): BenchOptions {
  try {
    const ids = scenariosOf({ root: ROOT, against: [], ratelimit: '' }).map(({ id }) => id)
    return parseOptions(process.argv.slice(2), ids, { table: TABLE })
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n${USAGE}\n`)
    process.exit(1)
  }
}

/** Makes keys and tokens, and starts upstream and load. Of two or more processors the first is the contender's. */
async function prepare(dir: string, scenarios: readonly Scenario[], options: BenchOptions) {
  const most = (algorithm: 'RS256' | 'ES256') =>
    Math.max(2, ...scenarios.map(({ request }) => (request.algorithm === algorithm ? request.tokens : 0)))
  say('making keys and tokens')
  const tokens = makeTokens(dir, { RS256: most('RS256'), ES256: most('ES256') })
  const cores = availableParallelism()
  const others = cores < 2 ? undefined : `1-${cores - 1}`
  const program = (url: URL, ...args: string[]) =>
    startChild({ command: [process.execPath, fileURLToPath(url), ...args], cpus: others, ipc: true })
  const certificate = await makeCertificateFiles(dir)
  const upstream = program(UPSTREAM, tokens.jwksFile, certificate.certFile, certificate.keyFile)
  const at = await firstMessage<{ port: number; tlsPort: number }>(upstream)
  const { rounds, measureMs, warmUps } = options
  const cpus = cores < 2 ? undefined : '0'
  const places = { upstreamPort: at.port, upstreamTlsPort: at.tlsPort, certificate }
  const field: Field = { dir, load: program(LOAD), ...places, tokens, rounds, measureMs, warmUps, cpus, say }
  const tokenBytes = `${tokens.bytes.RS256} bytes with RS256, ${tokens.bytes.ES256} with ES256`
  return { field, tokenBytes }
}

function contendersOf(scenarios: readonly Scenario[]): Report['contenders'] {
  const all = new Map(
    scenarios.flatMap(({ entries }) => entries.map(({ contender }) => [contender.name, contender])),
  )
  return [...all.values()].map(({ name, work, version }) => ({
    name,
    work,
    version: version() ?? 'not installed',
  }))
}

function publish(options: BenchOptions, report: Report): void {
  const out = options.out === undefined ? HERE : resolve(options.out)
  mkdirSync(out, { recursive: true })
  writeFileSync(join(out, 'RESULTS.md'), renderResults(report))
  writeFileSync(join(out, 'results.csv'), renderRounds(report))
  const picture = renderPicture(report)
  if (picture !== undefined) writeFileSync(join(out, 'results.svg'), picture)
  say(`written: ${join(out, 'RESULTS.md')}`)
}

function say(line: string): void {
  process.stdout.write(`${line}\n`)
}
