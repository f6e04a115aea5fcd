import { complain, EXIT } from './command.ts'
import { runCommandLine } from './command-line.ts'

/* Run by `countersign.mjs`. */

let isOutputLost = false
process.stdout.on('error', (error) => loseOutput(error, 'the output'))
process.stderr.on('error', (error) => loseOutput(error, 'what goes to standard error'))
const code = await runCommandLine(process.argv.slice(2))
process.exitCode ||= code

/** Says that output was lost, as on a full disk. A reader that stops early is no fault. */
function loseOutput({ code: cause, message }: NodeJS.ErrnoException, what: string): void {
  if (cause === 'EPIPE' || isOutputLost) return
  isOutputLost = true
  process.exitCode ||= EXIT.usage
  complain(`${what} cannot be written: ${message}`)
}
