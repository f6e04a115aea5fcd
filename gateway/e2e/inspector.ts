import { once } from 'node:events'
import { type TestGateway, until } from './running-gateway.ts'

/** Environment of a gateway whose threads can be reached from outside. */
export const INSPECTABLE = { NODE_OPTIONS: '--inspect=127.0.0.1:0' }

/** The threads of a gateway, through Node's inspector, because the gateway itself gives no access to them. */
export interface Threads {
  /** Names of the threads in the order of their start; the name of a replaced one occurs again. */
  readonly seen: readonly string[]
  /** Runs code in the latest thread of that name. */
  evaluate(name: string, expression: string): void
  close(): void
}

interface Message {
  readonly id?: number
  readonly method?: string
  readonly params?: {
    readonly sessionId: string
    readonly workerInfo?: { readonly title: string; readonly url: string }
  }
}

/** Follows the worker threads of a gateway that was started `INSPECTABLE`. */
export async function inspectThreads(gateway: TestGateway): Promise<Threads> {
  const url = await until(() => /ws:\/\/\S+/.exec(gateway.process.plain())?.[0])
  const socket = new WebSocket(url)
  await once(socket, 'open')
  const seen: string[] = []
  const sessions = new Map<string, string>()
  let id = 0
  const send = (method: string, params: object) => socket.send(JSON.stringify({ id: ++id, method, params }))
  socket.addEventListener('message', ({ data }) => {
    const { method, params } = JSON.parse(String(data)) as Message
    if (method !== 'NodeWorker.attachedToWorker' || params === undefined) return
    // The loader of the test run has threads too.
    const name = /worker-\d+$/.exec(params.workerInfo?.title ?? '')?.[0]
    if (name === undefined) return
    seen.push(name)
    sessions.set(name, params.sessionId)
  })
  send('NodeWorker.enable', { waitForDebuggerOnStart: false })
  return {
    seen,
    evaluate: (name, expression) => {
      const message = JSON.stringify({ id: ++id, method: 'Runtime.evaluate', params: { expression } })
      send('NodeWorker.sendMessageToWorker', { sessionId: sessions.get(name), message })
    },
    close: () => socket.close(),
  }
}

/**
 * Runs code in every worker of a gateway that was started `INSPECTABLE`; after a restart, in those of the process that serves.
 *
 * @returns what ends the connection, to be called once the code has had its effect
 */
export async function evaluateInWorkers(gateway: TestGateway, expression: string): Promise<() => void> {
  const url = await until(() =>
    gateway.process
      .plain()
      .match(/ws:\/\/\S+/g)
      ?.at(-1),
  )
  const socket = new WebSocket(url)
  await once(socket, 'open')
  const sessions: string[] = []
  let isEnabled = false
  socket.addEventListener('message', ({ data }) => {
    const { id, method, params } = JSON.parse(String(data)) as Message
    // Comes after those that are there.
    if (id === 1) isEnabled = true
    // Workers that a restart has started beforehand have no name.
    const isWorker = /\/cluster\/worker\.[jt]s$/.test(params?.workerInfo?.url ?? '')
    if (method === 'NodeWorker.attachedToWorker' && isWorker) sessions.push(params?.sessionId ?? '')
  })
  const send = (id: number, method: string, params: object) =>
    socket.send(JSON.stringify({ id, method, params }))
  send(1, 'NodeWorker.enable', { waitForDebuggerOnStart: false })
  await until(() => (isEnabled ? true : undefined))
  const message = JSON.stringify({ id: 1, method: 'Runtime.evaluate', params: { expression } })
  for (const sessionId of sessions) send(2, 'NodeWorker.sendMessageToWorker', { sessionId, message })
  return () => socket.close()
}
