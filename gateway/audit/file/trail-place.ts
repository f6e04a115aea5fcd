import { lstatSync, type Stats, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { realPathOf } from '../../storage/append-file.ts'
import { logDirectory } from '../seals/tiles.ts'

interface TrailPlace {
  /** Names a path that belongs to a user other than the gateway's and root. */
  readonly fault: string | undefined
  readonly warnings: readonly string[]
}

/** @param userId of the gateway; undefined: the system has none */
export function judgePlace(file: string, userId = process.geteuid?.()): TrailPlace {
  if (statsOf(dirname(file)) === undefined) return { fault: undefined, warnings: [] }
  const real = realPathOf(file)
  const named = statsOf(file, lstatSync)
  const paths = new Set([dirname(file), dirname(real), real, logDirectory(file)])
  const seen = new Set<string>()
  const found = [...paths].flatMap((path) => {
    const stats = statsOf(path)
    if (stats === undefined || seen.has(`${stats.dev}:${stats.ino}`)) return []
    seen.add(`${stats.dev}:${stats.ino}`)
    return [{ path, stats }]
  })
  const owned = [{ path: file, stats: named }, ...found]
  const faults = owned.flatMap(({ path, stats }) => ownerFault(path, stats, userId) ?? [])
  const link = `${file} is a link, and whoever can change it can send the trail elsewhere: name ${real} itself`
  return {
    fault: faults[0],
    warnings: [
      ...(named?.isSymbolicLink() ? [link] : []),
      ...found.flatMap(({ path, stats }) => sharing(path, stats)),
    ],
  }
}

export function ownerFault(
  path: string,
  stats: Pick<Stats, 'uid'> | undefined,
  userId = process.geteuid?.(),
): string | undefined {
  if (userId === undefined || stats === undefined || stats.uid === userId || stats.uid === 0) return undefined
  return `${path} belongs to the user ${stats.uid}, who can change it at any time: chown it to ${userId}, the user of this process, or run the gateway as ${stats.uid}`
}

function sharing(path: string, { mode, gid }: Stats): string[] {
  if ((mode & 0o022) === 0) return []
  const who = (mode & 0o002) === 0 ? `the group ${gid}` : 'everybody'
  return [`${path} may be written by ${who}, so that records can be taken away or replaced: chmod go-w`]
}

/** @returns undefined when the file is missing or denied: opening it then says so */
function statsOf(path: string, stat: (path: string) => Stats = statSync): Stats | undefined {
  try {
    return stat(path)
  } catch {
    return undefined
  }
}
