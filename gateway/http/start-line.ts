import { readTarget } from './target.ts'

const START_LINE = /^([A-Z]{1,20}) (\S{1,8192}) HTTP\/1\.[01]\r?\n/

/** The method and path of a request that the parser gave up on, for the audit trail; `-` and no path if unreadable. */
export function readStartLine(bytes: Buffer | undefined): { readonly method: string; readonly path: string } {
  const line = START_LINE.exec(bytes?.subarray(0, 8300).toString('latin1') ?? '')
  if (line === null) return { method: '-', path: '-' }
  const target = readTarget(line[2] as string)
  return { method: line[1] as string, path: typeof target === 'string' ? '-' : target.path }
}
