import { Client, type Dispatcher } from 'undici'

export interface UndiciReading {
  readonly information: { readonly status: number; readonly headers: readonly string[] }[]
  status: number | undefined
  headers: readonly string[]
  readonly chunks: Buffer[]
  /** True once the response is complete. */
  ended: boolean
}

/** Sends a request on a connection of its own. Undici, another HTTP/1.1 parser, reads the response. */
export async function readByUndici(url: string, method: string): Promise<UndiciReading> {
  const client = new Client(url, { pipelining: 1, allowH2: false })
  const reading: UndiciReading = {
    information: [],
    status: undefined,
    headers: [],
    chunks: [],
    ended: false,
  }
  const { promise, resolve } = Promise.withResolvers<void>()
  client.dispatch({ path: '/', method: method as Dispatcher.HttpMethod }, {
    onRequestStart() {},
    onResponseStart({ rawHeaders }, status) {
      const headers = (rawHeaders as readonly Buffer[]).map((text) => text.toString('latin1'))
      if (status >= 200) Object.assign(reading, { status, headers })
      else if (status === 103) reading.information.push({ status, headers })
    },
    onResponseData(_controller, chunk) {
      reading.chunks.push(chunk)
    },
    onResponseEnd() {
      reading.ended = true
      resolve()
    },
    onRequestUpgrade(_controller, _status, _headers, socket) {
      socket.destroy()
      resolve()
    },
    onResponseError: () => resolve(),
  } as Dispatcher.DispatchHandler)
  await promise
  await client.destroy()
  return reading
}
