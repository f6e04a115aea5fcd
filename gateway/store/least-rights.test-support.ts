import { readFileSync } from 'node:fs'

/** The user of docs/operate/operations.md as arguments of ACL SETUSER. */
export function leastRights(password: string): readonly string[] {
  const text = readFileSync(new URL('../../docs/operate/operations.md', import.meta.url), 'utf8')
  const line = /^user (countersign on .*)$/m.exec(text)?.[1]
  if (line === undefined) throw new Error('docs/operate/operations.md has no line for the user of the store')
  return line.replace('>PASSWORD', `>${password}`).split(' ')
}
