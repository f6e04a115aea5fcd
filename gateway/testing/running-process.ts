import { type ChildProcess, spawn } from 'node:child_process'
import { EventEmitter, on, once } from 'node:events'

export type LogLine = Readonly<Record<string, unknown>> & { readonly msg?: string }

export interface RunningProcess {
  readonly child: ChildProcess
  readonly lines: readonly LogLine[]
  /** Standard output, and lines on standard error that are not JSON. */
  plain(): string
  /** The first matching log line, past or future; rejects when the program ends first. */
  line(matches: (line: LogLine) => boolean): Promise<LogLine>
  /** Sends the signal. Resolves as `ended`. */
  end(signal: NodeJS.Signals): Promise<number | string>
  /** Exit code, or the signal's name. */
  readonly ended: Promise<number | string>
}

interface ProgramOptions {
  readonly cwd?: string
  /** The whole environment. */
  readonly env: Readonly<Record<string, string | undefined>>
}

const running = new Set<ChildProcess>()
process.on('exit', killPrograms)

export function killPrograms(): void {
  for (const child of running) child.kill('SIGKILL')
}

/** Starts a Node program. @param args flags of Node, the file, its arguments */
export function startProgram(args: readonly string[], options: ProgramOptions): RunningProcess {
  const child = spawn(process.execPath, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
  running.add(child)
  const log = readLog(child)
  const ended = once(child, 'close').then(([code, signal]) => {
    running.delete(child)
    log.end()
    return (signal ?? code) as number | string
  })
  return {
    child,
    lines: log.lines,
    plain: () => log.plain.join('\n'),
    line: log.wait,
    ended,
    end: (signal) => {
      child.kill(signal)
      return ended
    },
  }
}

function readLog(child: ChildProcess) {
  const lines: LogLine[] = []
  const plain: string[] = []
  const told = new EventEmitter<{ line: [LogLine]; end: [] }>().setMaxListeners(0)
  let rest = ''
  let over = false
  const take = (text: string) => {
    const line = parse(text)
    if (line !== undefined) {
      lines.push(line)
      told.emit('line', line)
    } else if (text !== '') plain.push(text)
  }
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    const pieces = (rest + text).split('\n')
    rest = pieces.pop() ?? ''
    pieces.forEach(take)
  })
  child.stdout?.setEncoding('utf8').on('data', (text: string) => plain.push(text))
  const wait = async (matches: (line: LogLine) => boolean): Promise<LogLine> => {
    const past = lines.find(matches)
    if (past !== undefined) return past
    const later = over ? [] : on(told, 'line', { close: ['end'] })
    for await (const [line] of later) if (matches(line)) return line
    throw new Error(
      `the process ended before the line came:\n${plain.join('\n')}\n${JSON.stringify(lines.slice(-5))}`,
    )
  }
  const end = () => {
    over = true
    take(rest)
    told.emit('end')
  }
  return { lines, plain, wait, end }
}

function parse(text: string): LogLine | undefined {
  if (!text.startsWith('{')) return undefined
  try {
    return JSON.parse(text) as LogLine
  } catch {
    return undefined
  }
}
