import { parseArgs } from 'node:util'
import { closestTo } from '../config/json/did-you-mean.ts'

export const EXIT = { good: 0, fault: 1, usage: 2 } as const

export interface Flag {
  /** What stands behind it: `FILE`; undefined: nothing, it is on or off. */
  readonly value?: string
  readonly about: string
}

/** One command, and all that its `--help` says. */
export interface Command {
  /** `METHOD PATH`; `[FILE…]`; empty: it takes no words. */
  readonly words: string
  /** How many words it takes. */
  readonly count: readonly [least: number, most: number]
  readonly flags: Readonly<Record<string, Flag>>
  /** Paragraphs. */
  readonly about: readonly string[]
  /** Command lines without `npx --`, each with what it does. */
  readonly examples: readonly (readonly [line: string, does: string])[]
  /** What exit code 1 means here. */
  readonly fault: string
  /** What exit code 2 means here; by default that the command line is not one. */
  readonly unable?: string
  /** @returns its exit code @throws CommandFault, UsageFault */
  run(given: Given): number | Promise<number>
}

export interface Given {
  readonly words: readonly string[]
  /** Values of flags by name; those without a value are `true`. */
  readonly flags: Readonly<Record<string, string | true | undefined>>
}

export function flagValue(flags: Given['flags'], name: string): string | undefined {
  const value = flags[name]
  return value === true ? undefined : value
}

/** The command could not be carried out: exit code 1. */
export class CommandFault extends Error {}

/** The command line is not one, or what it names cannot be read or written: exit code 2. */
export class UsageFault extends Error {}

/** Compares what was written with what the command takes. @throws UsageFault */
export function parseCommandLine({ words, count, flags }: Command, args: readonly string[]): Given {
  const options = Object.fromEntries(
    Object.entries(flags).map(([name, { value }]) => [name, { type: kindOf(value) }]),
  )
  const { tokens } = parseArgs({ args: [...args], options, strict: false, tokens: true })
  for (const token of tokens) {
    if (token.kind === 'option' && !Object.hasOwn(flags, token.name)) throw unknownFlag(token.rawName, flags)
  }
  const { values, positionals } = strictly(() =>
    parseArgs({ args: [...args], options, allowPositionals: true }),
  )
  if (positionals.length < count[0]) throw new UsageFault(`needs ${words}`)
  if (positionals.length > count[1]) {
    const extra = positionals[count[1]]
    throw new UsageFault(
      count[1] === 0 ? `takes no "${extra}"` : `takes ${words}, and nothing like "${extra}"`,
    )
  }
  return { words: positionals, flags: values as Given['flags'] }
}

function kindOf(value: string | undefined): 'string' | 'boolean' {
  return value === undefined ? 'boolean' : 'string'
}

function unknownFlag(written: string, flags: Command['flags']): UsageFault {
  const known = [...Object.keys(flags), 'help'].map((name) => `--${name}`)
  const meant = closestTo(written, known)
  return new UsageFault(
    `has no ${written}; ${meant === undefined ? `it has ${known.join(', ')}` : `did you mean ${meant}?`}`,
  )
}

/** Node's own sentences begin with a capital. */
function strictly<T>(parse: () => T): T {
  try {
    return parse()
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    throw new UsageFault(message.charAt(0).toLowerCase() + message.slice(1))
  }
}
