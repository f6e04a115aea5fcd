import { applyMemoryProfile } from './runtime/startup/memory-profile.ts'

const USAGE = 2

// A word on the command line is meant for another program.
if (process.argv.length > 2) {
  process.stderr.write('this program takes no arguments: `npx -- countersign --help` lists the commands\n')
  process.exit(USAGE)
}
applyMemoryProfile()
// Imported late: `applyMemoryProfile` may replace this process first.
const { runGateway } = await import('./runtime/run-gateway.ts')
await runGateway()
