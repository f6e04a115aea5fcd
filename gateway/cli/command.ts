import { parseArgs } from 'node:util'
import type { Environment } from '../config/environment.ts'
import { closestTo } from '../config/json/did-you-mean.ts'
import { printable } from '../terminal/printable.ts'

export const EXIT = { good: 0, fault: 1, usage: 2 } as const

export interface Flag {
  /** The value's name, such as `FILE`; undefined: no value. */
  readonly value?: string
  readonly about: string
}

export type Flags = Readonly<Record<string, Flag>>

/** A command, and what its `--help` says. */
export interface Command {
  /** Its words, such as `METHOD PATH`; `[FILE…]`: any number. */
  readonly words?: string
  readonly flags?: Flags
  readonly about: readonly string[]
  /** Command lines without `npx --`, and what they do. */
  readonly examples: readonly (readonly [line: string, does: string])[]
  readonly fault: string
  /** What exit code 2 means; by default a wrong command line. */
  readonly unable?: string
  /** Returns the exit code. @throws CommandFault, UsageFault */
  run(given: Given): number | Promise<number>
}

export interface Given {
  readonly words: readonly string[]
  /** By name; `''` for a flag without value. */
  readonly flags: Readonly<Record<string, string | undefined>>
}

/** The command failed: exit code 1. */
export class CommandFault extends Error {}

/** The command line is wrong, or a file that it names cannot be used: exit code 2. */
export class UsageFault extends Error {}

/** Each of these flags overrides its variable. */
export const CONFIG_FLAGS = {
  config: { value: 'FILE', about: 'gateway.json; default $GATEWAY_CONFIG, or config/gateway.json' },
  limits: { value: 'FILE', about: 'limits.json; default $GATEWAY_LIMITS, or config/limits.json' },
  clients: { value: 'FILE', about: 'clients.json; default $GATEWAY_CLIENTS, or config/clients.json' },
} as const satisfies Flags

/** With `--json` too, faults of the command line itself go to standard error as text. */
export const JSON_FLAG = { json: { about: 'as JSON' } } as const satisfies Flags

export function environmentOf(flags: Given['flags']): Environment {
  const given = Object.keys(CONFIG_FLAGS).filter((name) => flags[name] !== undefined)
  const variables = given.map((name) => [`GATEWAY_${name.toUpperCase()}`, flags[name]])
  return { ...process.env, ...Object.fromEntries(variables) }
}

export function parseCommandLine({ words = '', flags = {} }: Command, args: readonly string[]): Given {
  const { values, positionals } = parsed(flags, args)
  for (const [name, { value }] of Object.entries(flags))
    if (values[name] === '') throw new UsageFault(`needs a ${value} after --${name}, and "" is none`)
  const taken = words.split(' ').filter((word) => word !== '')
  const least = taken.filter((word) => !word.startsWith('[')).length
  const most = words.endsWith('…]') ? Number.POSITIVE_INFINITY : taken.length
  if (positionals.length < least) throw new UsageFault(`needs ${words}`)
  if (positionals.length > most) {
    const extra = positionals[most]
    throw new UsageFault(most === 0 ? `takes no "${extra}"` : `takes ${words}, and nothing like "${extra}"`)
  }
  const written = Object.entries(values).map(([name, value]) => [name, value === true ? '' : String(value)])
  return { words: positionals, flags: Object.fromEntries(written) }
}

function parsed(flags: Flags, args: readonly string[]) {
  const types = Object.entries(flags).map(([name, { value }]) => {
    const type: 'boolean' | 'string' = value === undefined ? 'boolean' : 'string'
    return [name, { type }] as const
  })
  try {
    return parseArgs({ args: [...args], options: Object.fromEntries(types), allowPositionals: true })
  } catch (error) {
    const { message } = error as Error
    const unknown = /^Unknown option '([^']+)'/.exec(message)?.[1]
    if (unknown === undefined) throw new UsageFault(message.charAt(0).toLowerCase() + message.slice(1))
    const known = [...Object.keys(flags), 'help'].map((name) => `--${name}`)
    const meant = closestTo(unknown, known)
    const hint = meant === undefined ? `it has ${known.join(', ')}` : `did you mean ${meant}?`
    throw new UsageFault(`has no ${unknown}; ${hint}`)
  }
}

export function print(text: string): void {
  process.stdout.write(`${lines(text)}\n`)
}

export function printJson(value: object): void {
  print(JSON.stringify(value))
}

export function complain(text: string): void {
  process.stderr.write(`${lines(text)}\n`)
}

/** Checks and their results, for JSON. In text output, each is printed immediately. */
export class Checks {
  readonly checks: object[] = []
  readonly #isQuiet: boolean

  constructor(isQuiet: boolean) {
    this.#isQuiet = isQuiet
  }

  say(line: string): void {
    if (!this.#isQuiet) print(line)
  }

  passes(check: string, cause: string | undefined): boolean {
    const passed = cause === undefined
    this.checks.push({ check, passed, cause })
    this.say(passed ? `pass  ${check}` : `FAIL  ${check}: ${cause}`)
    return passed
  }
}

/** Escapes each line: texts of files and responses could steer the terminal. */
function lines(text: string): string {
  return text.split('\n').map(printable).join('\n')
}
