import { type Command, EXIT, type Flags, print, UsageFault } from './command.ts'
import { COMMANDS } from './commands.ts'
import { HELP } from './help.ts'

/** What may come next: a group's commands, a command's flags. */
interface Next {
  readonly before: string
  readonly words: readonly (readonly [word: string, does: string])[]
  readonly flags: Flags
}

const SCRIPTS = { bash: bashScript, zsh: zshScript, fish: fishScript }

export const command: Command = {
  words: 'SHELL',
  about: ['Prints a script for bash, zsh or fish that completes commands and flags by Tab.'],
  examples: [['countersign completion bash > countersign.bash', 'a file to source in ~/.bashrc']],
  fault: 'never',
  async run({ words: [shell = ''] }) {
    if (!Object.hasOwn(SCRIPTS, shell)) throw new UsageFault(`SHELL is bash, zsh or fish, not "${shell}"`)
    print(SCRIPTS[shell as keyof typeof SCRIPTS](await everyNext()).join('\n'))
    return EXIT.good
  },
}

/** Commands stand before their groups, because scripts take the first entry that begins the command line. */
async function everyNext(): Promise<Next[]> {
  const names = Object.keys(COMMANDS)
  const families = Map.groupBy(
    names.filter((name) => name.includes(' ')),
    (name) => name.split(' ')[0] as string,
  )
  const summaries = (under: readonly string[]) =>
    under.map((name) => [name.split(' ').at(-1) as string, COMMANDS[name]?.summary ?? ''] as const)
  const first = summaries(names.filter((name) => !name.includes(' ')))
  const groups = [...families].map(([family, members]) => ({
    before: family,
    words: summaries(members),
    flags: HELP,
  }))
  const commands = names.map(async (before) => {
    const { command: one } = await (COMMANDS[before] as (typeof COMMANDS)[string]).load()
    return { before, words: [], flags: { ...one.flags, ...HELP } }
  })
  const inGroups = groups.map(
    ({ before, words }) => [before, words.map(([word]) => word).join(', ')] as const,
  )
  const top = {
    before: '',
    words: [...first, ...inGroups],
    flags: { ...HELP, version: { about: 'prints the version' } },
  }
  return [...(await Promise.all(commands)), ...groups, top]
}

function bashScript(all: readonly Next[]): string[] {
  return [
    '_countersign() {',
    `  local next= cur=\${COMP_WORDS[COMP_CWORD]}`,
    `  case "\${COMP_WORDS[*]:1:COMP_CWORD-1} $cur" in`,
    ...cases(all, (words) => `next="${words.map(([word]) => word).join(' ')}"`),
    '  esac',
    '  COMPREPLY=($(compgen -W "$next" -- "$cur"))',
    '}',
    'complete -o default -F _countersign countersign',
  ]
}

function zshScript(all: readonly Next[]): string[] {
  const described = (words: Next['words']) =>
    `next=(${words.map(([word, does]) => quoted(`${word}:${does}`, "'\\''")).join(' ')})`
  return [
    '#compdef countersign',
    '_countersign() {',
    '  local -a next',
    '  local cur=$words[CURRENT]',
    `  case "\${(j: :)words[2,CURRENT-1]} $cur" in`,
    ...cases(all, described),
    '  esac',
    '  _describe countersign next || _files',
    '}',
    'if [[ $funcstack[1] == _countersign ]]; then _countersign "$@"; else compdef _countersign countersign; fi',
  ]
}

/** Words other than flags are left to the shell, which completes file names. */
function cases(all: readonly Next[], set: (words: Next['words']) => string): string[] {
  return all.map(({ before, words, flags }) => {
    const named = Object.entries(flags).map(([flag, { about }]) => [`--${flag}`, about] as const)
    const only = words.length === 0 ? '[[ $cur == -* ]] && ' : ''
    return `    "${before} "*) ${only}${set([...words, ...named])} ;;`
  })
}

function fishScript(all: readonly Next[]): string[] {
  return all.flatMap(({ before, words, flags }) => {
    const typed = `*countersign ${before === '' ? '' : `${before} `}${words.length > 0 ? '' : '*'}`
    const given = `string match -q -- ${quoted(typed, "\\'")} (string join " " -- (commandline -opc))" "`
    const start = `complete -c countersign -n ${quoted(given, "\\'")}`
    return [
      ...words.map(([word, does]) => `${start} -f -a ${word} -d ${quoted(does, "\\'")}`),
      ...Object.entries(flags).map(([flag, { value, about }]) => {
        return `${start} -l ${flag}${value === undefined ? '' : ' -r'} -d ${quoted(about, "\\'")}`
      }),
    ]
  })
}

/** Each shell writes a quote within a text in its own way. */
function quoted(text: string, quote: string): string {
  return `'${text.replaceAll("'", quote)}'`
}
