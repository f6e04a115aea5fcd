import type { Command, Flags } from './command.ts'
import { COMMANDS } from './commands.ts'

export const HELP: Flags = { help: { about: 'shows this help' } }

export function overview(version: string): string {
  return `Countersign ${version}: an API gateway for financial services.

  countersign COMMAND [flags]

${listed('')}

  countersign COMMAND --help   what a command takes, with examples
  countersign --version        ${version}

It is configured by config/gateway.json, config/limits.json and variables named GATEWAY_….
Exit codes: 0 good, 1 a fault, 2 the command line is wrong, or the output cannot be written.
`
}

export function familyHelp(family: string): string {
  return `countersign ${family} COMMAND [flags]

${listed(`${family} `)}

  countersign ${family} COMMAND --help   what a command takes, with examples
`
}

function listed(prefix: string): string {
  const shown = Object.entries(COMMANDS).filter(([name]) => name.startsWith(prefix))
  return columns(shown.map(([name, { summary }]) => [name, summary]))
}

export function helpOf(name: string, command: Command): string {
  const { words, flags, about, examples, fault, unable = 'the command line is wrong' } = command
  const usage = ['countersign', name, '[flags]', words].filter((part) => part !== undefined).join(' ')
  const shown = Object.entries({ ...flags, ...HELP }).map(
    ([flag, { value, about: does }]) =>
      [value === undefined ? `--${flag}` : `--${flag} ${value}`, does] as const,
  )
  return `${usage}

${about.map((text) => text.replaceAll(/(.{1,98})(?: |$)/g, '$1\n').trimEnd()).join('\n\n')}

Flags
${columns(shown)}

Examples
${examples.map(([line, does]) => `  ${line}\n      ${does}`).join('\n')}

Exit codes: 0 good; 1 ${fault}; 2 ${unable}, or the
output cannot be written.
`
}

function columns(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length)) + 3
  return rows.map(([left, right]) => `  ${left.padEnd(width)}${right}`).join('\n')
}
