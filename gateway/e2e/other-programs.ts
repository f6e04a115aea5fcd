import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'

interface Suite<Program extends string> {
  readonly title: string
  /** Programs that Debian does not package; `.ci/go-programs` builds them where it can. */
  readonly programs: readonly Program[]
  /** True lists the suite as skipped when a program is missing. */
  readonly isListed: boolean
}

/** Declares a suite if its programs are installed. @param declare gets their paths */
export function describeWithPrograms<Program extends string>(
  { title, programs, isListed }: Suite<Program>,
  declare: (paths: Readonly<Record<Program, string>>) => void,
): void {
  const paths = programs.map((program) => [program, pathOf(program)] as const)
  const missing = paths.filter(([, path]) => path === undefined).map(([program]) => program)
  if (missing.length === 0) {
    const found = Object.fromEntries(paths) as Record<Program, string>
    describe(title, () => declare(found))
  } else if (isListed) it(title, { skip: `not installed: ${missing.join(', ')}` })
}

/** Option `skip` of tests with these programs: false where all are installed. */
export function skipWithout(...programs: readonly string[]): string | false {
  const missing = programs.filter((program) => pathOf(program) === undefined)
  return missing.length > 0 && `not installed: ${missing.join(', ')}`
}

/** The program's path, by a variable such as TESSERA_FSCK_PATH for `tessera-fsck`, or by PATH. */
function pathOf(program: string): string | undefined {
  const named = process.env[`${program.toUpperCase().replaceAll('-', '_')}_PATH`]
  if (named !== undefined) return named
  return (process.env.PATH ?? '')
    .split(':')
    .map((dir) => join(dir, program))
    .find(existsSync)
}
