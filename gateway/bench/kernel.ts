import { readdirSync, readFileSync } from 'node:fs'

/** CPU time that the kernel charged, in microseconds. */
export interface CpuTime {
  readonly userUs: number
  readonly systemUs: number
}

/** The kernel reports hundredths of a second, whatever its tick (sysconf(_SC_CLK_TCK)). */
const TICK_US = 10_000

/** Parses /proc/<pid>/stat, whose times (proc(5), fields 14 and 15) include ended threads. */
export function parseStat(text: string): CpuTime & { readonly parent: number } {
  // The second field, the name in brackets, may hold spaces and brackets.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const field = (number: number) => {
    const value = Number(fields[number - 3])
    if (!Number.isInteger(value)) throw new Error(`not a line of /proc/<pid>/stat: ${text}`)
    return value
  }
  return { parent: field(4), userUs: field(14) * TICK_US, systemUs: field(15) * TICK_US }
}

/** Peak resident bytes, from /proc/<pid>/status. */
export function parsePeakBytes(text: string): number {
  return bytesNamed('VmHWM', text)
}

export function residentBytesOf(pid: number): number {
  return bytesNamed('VmRSS', readFileSync(`/proc/${pid}/status`, 'latin1'))
}

function bytesNamed(name: 'VmHWM' | 'VmRSS', text: string): number {
  const kilobytes = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text)?.[1]
  if (kilobytes === undefined) throw new Error(`no ${name} in /proc/<pid>/status`)
  return Number(kilobytes) * 1024
}

export function cpuTimeOf(pids: readonly number[]): CpuTime {
  let userUs = 0
  let systemUs = 0
  for (const pid of pids) {
    const stat = parseStat(readFileSync(`/proc/${pid}/stat`, 'latin1'))
    userUs += stat.userUs
    systemUs += stat.systemUs
  }
  return { userUs, systemUs }
}

/** Peak resident bytes of all processes; shared memory counts for each. */
export function peakBytesOf(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + parsePeakBytes(readFileSync(`/proc/${pid}/status`, 'latin1')), 0)
}

/** The process and all its descendants. */
export function familyOf(pid: number): readonly number[] {
  const parents = new Map<number, number>()
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    try {
      parents.set(Number(name), parseStat(readFileSync(`/proc/${name}/stat`, 'latin1')).parent)
    } catch {
      // It has ended meanwhile.
    }
  }
  const family = [pid]
  for (const member of family) {
    for (const [child, parent] of parents) if (parent === member) family.push(child)
  }
  return family
}
