/** @import { History, Moment } from '../wire.ts' */

/** The token's name in the storage of the tab. A cookie would go to every port of the host. */
export const TOKEN = 'countersign-admin-token'
const WAITS_MS = [500, 1000, 2000, 5000]
/** A longer silence means a lost connection: the gateway sends something each second. */
const SILENCE_MS = 10_000

/**
 * @typedef {object} Receiver
 * @property {(points: History) => void} history
 * @property {(moment: Moment) => void} moment
 * @property {(reason: string) => void} fault The gateway could not make a moment.
 * @property {() => void} lost The connection is lost; another try follows.
 * @property {(wasTried: boolean) => void} unauthorized A token is missing or wrong.
 * @property {(reason: string) => void} refused Another refusal, in the gateway's words; another try follows.
 */

/**
 * Follows the gateway's events until a stop or 401. `EventSource` cannot send a token.
 * @param {string | undefined} token @param {Receiver} receiver @returns {() => void} ends it
 */
export function follow(token, receiver) {
  const stop = new AbortController()
  void (async () => {
    for (let tries = 0; !stop.signal.aborted; tries++) {
      const outcome = await readOnce(token, receiver, stop.signal)
      if (stop.signal.aborted || outcome === 'unauthorized') return
      if (outcome === 'read') tries = 0
      await new Promise((done) => setTimeout(done, WAITS_MS[Math.min(tries, WAITS_MS.length - 1)]))
    }
  })()
  return () => stop.abort()
}

/**
 * @param {string | undefined} token @param {Receiver} receiver @param {AbortSignal} stopped
 * @returns {Promise<'unauthorized' | 'refused' | 'read' | 'failed'>}
 */
async function readOnce(token, receiver, stopped) {
  const silence = new AbortController()
  /** @type {'read' | 'failed'} */
  let outcome = 'failed'
  let timer = setTimeout(() => silence.abort(), SILENCE_MS)
  try {
    const response = await fetch('/events', {
      headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
      signal: AbortSignal.any([stopped, silence.signal]),
      credentials: 'omit',
    })
    if (response.status === 401) {
      receiver.unauthorized(token !== undefined)
      return 'unauthorized'
    }
    if (!response.ok || response.body === null) {
      receiver.refused(await response.text())
      return 'refused'
    }
    let rest = ''
    for await (const text of textsOf(response.body)) {
      outcome = 'read'
      clearTimeout(timer)
      timer = setTimeout(() => silence.abort(), SILENCE_MS)
      const events = (rest + text).split('\n\n')
      rest = events.pop() ?? ''
      for (const event of events) dispatch(event, receiver)
    }
  } catch {
    // Reported below.
  } finally {
    clearTimeout(timer)
  }
  if (!stopped.aborted) receiver.lost()
  return outcome
}

/** @param {ReadableStream<Uint8Array<ArrayBuffer>>} body */
async function* textsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    yield value
  }
}

/** @param {string} event @param {Receiver} receiver */
function dispatch(event, receiver) {
  const [, name, data] = /^event: (\w+)\ndata: (.*)$/s.exec(event) ?? []
  if (data === undefined) return
  const value = JSON.parse(data)
  if (name === 'history') receiver.history(value)
  else if (name === 'moment') receiver.moment(value)
  else if (name === 'fault') receiver.fault(value.reason)
}
