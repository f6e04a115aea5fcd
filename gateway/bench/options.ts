import { parseArgs } from 'node:util'

/** Node compiles hot code only after many calls. */
const WARM_UPS = 4

export interface BenchOptions {
  readonly rounds: number
  readonly measureMs: number
  /** The most warm-ups of a contender before the first round. */
  readonly warmUps: number
  /** Scenario ids; undefined: all. */
  readonly only: ReadonlySet<string> | undefined
  /** Contender names; undefined: all. */
  readonly among: ReadonlySet<string> | undefined
  /** Other trees of this repository, measured beside this one. */
  readonly against: readonly string[]
  /** The measured tree; undefined: this file's. */
  readonly root: string | undefined
  /** The program of envoyproxy/ratelimit. */
  readonly ratelimit: string
  /** Where results go; undefined: over the committed ones, which only a whole run may replace. */
  readonly out: string | undefined
}

export const USAGE = `npm run bench -- [options]
  --quick            one short round of everything, as a trial
  --only a,b         only these scenarios; "table" means those that decide between this gateway and a C proxy
  --among a,b        only these contenders, by their names in RESULTS.md
  --rounds n         how many rounds; default 5, with --quick 1
  --seconds n        how long each contender is measured in a round; default 2.5, with --quick 0.5
  --against DIR,DIR  also measures the gateways of these other trees of this repository
  --root DIR         measures the gateway of that tree instead of this one's
  --ratelimit FILE   the program of envoyproxy/ratelimit; default: service_cmd on PATH. To install it:
                     go install github.com/envoyproxy/ratelimit/src/service_cmd@latest
  --out DIR          where RESULTS.md, results.csv and results.svg go; default: gateway/bench for a whole run, otherwise data/bench`

/**
 * Reads the options. Throws with words for the user.
 *
 * @param ids of all scenarios
 * @param groups of scenarios by name
 */
export function parseOptions(
  args: readonly string[],
  ids: readonly string[],
  groups: Readonly<Record<string, readonly string[]>> = {},
): BenchOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      quick: { type: 'boolean', default: false },
      only: { type: 'string' },
      among: { type: 'string' },
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      against: { type: 'string' },
      root: { type: 'string' },
      ratelimit: { type: 'string', default: 'service_cmd' },
      out: { type: 'string' },
    },
  })
  const { quick, root, ratelimit } = values
  const against = values.against?.split(',') ?? []
  const only =
    values.only === undefined
      ? undefined
      : new Set(values.only.split(',').flatMap((id) => groups[id] ?? [id]))
  const among = values.among === undefined ? undefined : new Set(values.among.split(','))
  const unknown = [...(only ?? [])].filter((id) => !ids.includes(id))
  if (unknown.length > 0)
    throw new Error(`no scenario is called ${unknown.join(', ')}: the scenarios are ${ids.join(', ')}`)
  const rounds = positive('rounds', values.rounds) ?? (quick ? 1 : 5)
  const seconds = positive('seconds', values.seconds) ?? (quick ? 0.5 : 2.5)
  const asIs = [only, among, values.against, root].every((value) => value === undefined)
  const whole = asIs && !quick && rounds >= 5
  const out = values.out ?? (whole ? undefined : 'data/bench')
  const warmUps = quick ? 1 : WARM_UPS
  return { rounds, measureMs: seconds * 1000, warmUps, only, among, against, root, ratelimit, out }
}

function positive(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const value = Number(text)
  if (!(value > 0) || (name === 'rounds' && !Number.isInteger(value))) {
    const kind = name === 'rounds' ? 'whole number' : 'number'
    throw new Error(`--${name} must be a ${kind} above 0, but is "${text}"`)
  }
  return value
}
