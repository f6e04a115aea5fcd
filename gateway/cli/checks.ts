import { print } from './command.ts'

/** The checks so far. In text output, each is printed at once. */
export class Checks {
  readonly checks: object[] = []
  readonly #isQuiet: boolean

  constructor(isQuiet: boolean) {
    this.#isQuiet = isQuiet
  }

  say(line: string): void {
    if (!this.#isQuiet) print(line)
  }

  passes(check: string, cause: string | undefined): boolean {
    const passed = cause === undefined
    this.checks.push({ check, passed, cause })
    this.say(passed ? `pass  ${check}` : `FAIL  ${check}: ${cause}`)
    return passed
  }
}
