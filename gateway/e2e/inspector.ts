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
  readonly method?: string
  readonly params?: { readonly sessionId: string; readonly workerInfo: { readonly title: string } }
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
    const name = /worker-\d+$/.exec(params.workerInfo.title)?.[0]
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

/** Runs code in the main thread of a gateway that was started `INSPECTABLE`. */
export async function evaluateInMain(gateway: TestGateway, expression: string): Promise<void> {
  const url = await until(() => /ws:\/\/\S+/.exec(gateway.process.plain())?.[0])
  const socket = new WebSocket(url)
  await once(socket, 'open')
  socket.send(JSON.stringify({ id: 1, method: 'Runtime.evaluate', params: { expression } }))
  await once(socket, 'message')
  socket.close()
}
