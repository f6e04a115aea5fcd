import { applyMemoryProfile } from './runtime/startup/memory-profile.ts'

const USAGE = 2

// Whoever adds a word wants something else than a gateway.
if (process.argv.length > 2) {
  process.stderr.write('this program takes no arguments: the command line is `npx -- countersign --help`\n')
  process.exit(USAGE)
}
applyMemoryProfile()
// Loaded by the Node that runs it, and no other.
const { runGateway } = await import('./runtime/run-gateway.ts')
await runGateway()
