import { readFileSync } from 'node:fs'

/** The user of config/OPERATIONS.md as arguments of ACL SETUSER. */
export function leastRights(password: string): readonly string[] {
  const text = readFileSync(new URL('../../config/OPERATIONS.md', import.meta.url), 'utf8')
  const line = /^user (countersign on .*)$/m.exec(text)?.[1]
  if (line === undefined) throw new Error('config/OPERATIONS.md has no line for the user of the store')
  return line.replace('>PASSWORD', `>${password}`).split(' ')
}
