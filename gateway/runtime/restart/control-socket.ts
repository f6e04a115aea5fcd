import { once } from 'node:events'
import { connect, createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { removeFile } from '../../storage/line-file.ts'
import { LISTENERS } from './sockets.ts'

const REQUEST = 'restart\n'
const CLIENT_MS = 5000
/** A process that has just taken over listens a moment later. */
const REACH_MS = 1000
const REACH_AGAIN_MS = 20
/** Time for each step of the new process: to read its configuration, to take a listening socket, to serve. */
export const STEP_MS = 30_000
/** Time for all steps of the new process, and one more of the old process. */
export const REPORT_MS = (LISTENERS.length + 3) * STEP_MS

export interface Restarted {
  readonly pid: number
  readonly heldMs: number
}

export interface RestartReport {
  readonly restarted: boolean
  readonly text: string
}

function pathIn(dataDir: string): string {
  return join(dataDir, 'control.sock')
}

/** Serves `countersign restart`, in the data directory, which only the gateway's own user can reach. */
export class ControlSocket {
  readonly #dataDir: string
  readonly #onFault: (cause: string) => void
  readonly #restart: () => Promise<Restarted>
  #server: Server | undefined

  /** @param restart resolves when another process serves */
  constructor(
    dataDir: string,
    { restart, onFault }: { restart(): Promise<Restarted>; onFault(cause: string): void },
  ) {
    this.#dataDir = dataDir
    this.#restart = restart
    this.#onFault = onFault
  }

  /** Call it only while this process has the data directory: a socket file there then belongs to an ended process. */
  open(): void {
    const path = pathIn(this.#dataDir)
    const server = createServer((socket) => {
      socket.setTimeout(CLIENT_MS, () => socket.destroy())
      socket.on('error', () => socket.destroy())
      let text = ''
      socket.setEncoding('latin1').on('data', (piece: string) => {
        text += piece
        if (text.length >= REQUEST.length) socket.pause()
        if (text !== REQUEST) return
        socket.setTimeout(0)
        void this.#report().then((report) => socket.end(`${JSON.stringify(report)}\n`))
      })
    })
    server.on('error', ({ message }) => this.#onFault(message))
    try {
      removeFile(path)
      server.listen(path)
      server.unref()
    } catch (error) {
      this.#onFault((error as Error).message)
    }
    this.#server = server
  }

  close(): void {
    this.#server?.close()
    this.#server = undefined
  }

  async #report(): Promise<RestartReport> {
    try {
      const { pid, heldMs } = await this.#restart()
      const text = `process ${pid} serves in place of process ${process.pid}; clients waited for ${heldMs} ms`
      return { restarted: true, text }
    } catch (error) {
      return { restarted: false, text: (error as Error).message }
    }
  }
}

/** Never rejects. */
export async function askRestart(dataDir: string, reportMs = REPORT_MS): Promise<RestartReport> {
  const path = pathIn(dataDir)
  const untilMs = performance.now() + REACH_MS
  for (;;) {
    try {
      return await askOnce(path, reportMs)
    } catch (error) {
      if (performance.now() >= untilMs)
        return { restarted: false, text: `no gateway can be reached at ${path}: ${(error as Error).message}` }
      await new Promise((resolve) => setTimeout(resolve, REACH_AGAIN_MS))
    }
  }
}

/** @throws (rejects) when nobody listens */
async function askOnce(path: string, reportMs: number): Promise<RestartReport> {
  const socket = connect(path)
  await once(socket, 'connect')
  let fault = 'the gateway ended without a report: see its log'
  socket.setTimeout(reportMs, () => {
    fault = `the gateway has said nothing for ${reportMs / 1000} s: it hangs, or may still restart; see its log`
    socket.destroy()
  })
  socket.write(REQUEST)
  try {
    return JSON.parse(await text(socket)) as RestartReport
  } catch {
    return { restarted: false, text: fault }
  }
}
