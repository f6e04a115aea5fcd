import { subscribe } from 'node:diagnostics_channel'
import { writeFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import type { Server } from 'node:net'
import { isMainThread } from 'node:worker_threads'

/** The files and modules loaded when a listener last opened, or at the end. */
export interface Loaded {
  readonly files: readonly string[]
  /** Node's own modules, by Node's names. */
  readonly builtins: readonly string[]
}

/** Missing in Node's types. */
const { moduleLoadList: builtins } = process as NodeJS.Process & {
  readonly moduleLoadList: readonly string[]
}
const files: string[] = []

registerHooks({
  load: (url, context, next) => {
    if (url.startsWith('file:')) files.push(url)
    return next(url, context)
  },
})

/**
 * Loaded before a program (`--import`), this writes into the file LOADED_FILE what has been loaded, whenever the
 * program opens a port, and at its exit.
 */
subscribe('tracing:net.server.listen:asyncEnd', (message) => {
  const { server } = message as { readonly server: Server }
  // Leaves out the control socket, which opens later, when the gateway already fetches keys.
  if (typeof server.address() !== 'string') write()
})
process.on('exit', write)

function write(): void {
  if (!isMainThread) return
  const loaded: Loaded = { files, builtins }
  writeFileSync(process.env.LOADED_FILE ?? '', JSON.stringify(loaded))
}
