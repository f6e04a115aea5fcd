import { printable } from '../terminal/printable.ts'

/** A result, to standard output. */
export function print(text = ''): void {
  process.stdout.write(`${lines(text)}\n`)
}

/** A fault, a warning or a hint, to standard error. */
export function complain(text: string): void {
  process.stderr.write(`${lines(text)}\n`)
}

/** What stands in files and in responses of others cannot steer the terminal. */
function lines(text: string): string {
  return text.split('\n').map(printable).join('\n')
}
