import { didYouMean } from '../config/json/did-you-mean.ts'
import packageJson from '../package.json' with { type: 'json' }
import { CommandFault, complain, EXIT, parseCommandLine, print, UsageFault } from './command.ts'
import { COMMANDS } from './commands.ts'
import { familyHelp, helpOf, overview } from './help.ts'

/** @param args without `countersign` @returns the exit code */
export async function runCommandLine(args: readonly string[]): Promise<number> {
  const [first = '--help', ...rest] = args
  switch (first) {
    case '--help':
    case '-h':
      print(overview(packageJson.version).trimEnd())
      return args.length === 0 ? EXIT.usage : EXIT.good
    case '--version':
    case '-v':
      print(packageJson.version)
      return EXIT.good
    case 'help':
      return runCommandLine(rest.length === 0 ? ['--help'] : [...rest, '--help'])
    default:
      return runCommand(args)
  }
}

async function runCommand(args: readonly string[]): Promise<number> {
  const name = [args.slice(0, 2).join(' '), String(args[0])].find((words) => Object.hasOwn(COMMANDS, words))
  if (name === undefined) return unknownCommand(args)
  const { command } = await (COMMANDS[name] as (typeof COMMANDS)[string]).load()
  const own = args.slice(name.split(' ').length)
  if (own.includes('--help') || own.includes('-h')) {
    print(helpOf(name, command).trimEnd())
    return EXIT.good
  }
  try {
    return await command.run(parseCommandLine(command, own))
  } catch (error) {
    if (error instanceof UsageFault) {
      complain(`countersign ${name} ${error.message}\nSee: countersign ${name} --help`)
      return EXIT.usage
    }
    const { message, syscall } = error as NodeJS.ErrnoException
    if (!(error instanceof CommandFault) && syscall === undefined) throw error
    complain(message)
    return EXIT.fault
  }
}

function unknownCommand(args: readonly string[]): number {
  const [first = '', second] = args
  const names = Object.keys(COMMANDS)
  const family = names.filter((name) => name.startsWith(`${first} `))
  if (family.length > 0 && (second === '--help' || second === '-h')) {
    print(familyHelp(first).trimEnd())
    return EXIT.good
  }
  const known = first.startsWith('-') ? ['--help', '--version'] : names
  const both = args.slice(0, 2).join(' ')
  const hint = didYouMean(both, known) || didYouMean(first, known)
  const fault =
    family.length > 0 && hint === ''
      ? `countersign ${first} is not a command: there is ${family.join(', ')}`
      : `countersign has no ${first.startsWith('-') ? 'flag' : 'command'} "${family.length > 0 ? both : first}"${hint}`
  complain(`${fault}\nSee: countersign --help`)
  return EXIT.usage
}
