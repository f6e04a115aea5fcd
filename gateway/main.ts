import { applyMemoryProfile } from './runtime/startup/memory-profile.ts'

/** Exit code when it is called wrongly. */
const USAGE = 2

// Whoever adds a word to a program wants something else of it than a gateway.
if (process.argv.length > 2) {
  process.stderr.write('this program takes no arguments: the command line is `npx -- countersign --help`\n')
  process.exit(USAGE)
}
applyMemoryProfile()
// Loaded by the Node that runs it, and no other.
const { runGateway } = await import('./runtime/run-gateway.ts')
await runGateway()
