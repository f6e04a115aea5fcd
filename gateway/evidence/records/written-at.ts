const NEWLINE = 10
const RESPONSE_HEAD = Buffer.from('{"type":"API_RESPONSE"')
const REQUEST_HEAD = Buffer.from('{"type":"API_REQUEST"')
const TIMESTAMP = /^.{0,512}?"timestamp":"([^"]+)"/
/** Of a response; no value can hold the keys, because quotes inside values are escaped. */
const DURATION = /,"statusCode":\d+,"duration":([\d.]+)(,"recovered":true)?/

/**
 * When a line was written, milliseconds since the epoch, as far as it tells. A response was written at the end of its
 * exchange: start and duration tell when. A request tells only that it began before, and a recovered response nothing.
 *
 * @param line with or without its `\n`.
 */
export function writtenMs(line: Buffer): number | undefined {
  if (startsWith(line, REQUEST_HEAD)) return undefined
  const text = line.toString('latin1')
  const startMs = Date.parse(TIMESTAMP.exec(text)?.[1] ?? '')
  if (Number.isNaN(startMs)) return undefined
  if (!startsWith(line, RESPONSE_HEAD)) return startMs
  const [, durationMs, recovered] = DURATION.exec(text) ?? []
  return durationMs === undefined || recovered !== undefined ? undefined : startMs + Number(durationMs)
}

/** The first line of a block that tells when it was written. @returns its place, and that time in milliseconds. */
export function firstWritten(
  block: Buffer,
  from = 0,
): { readonly at: number; readonly ms: number } | undefined {
  for (let at = from; at < block.length; ) {
    const newline = block.indexOf(NEWLINE, at)
    if (newline === -1) return undefined
    const ms = writtenMs(block.subarray(at, newline))
    if (ms !== undefined) return { at, ms }
    at = newline + 1
  }
  return undefined
}

/** When the last line of a block that tells it was written. */
export function lastWrittenMs(block: Buffer): number | undefined {
  for (let end = block.lastIndexOf(NEWLINE); end > 0; ) {
    const newline = block.lastIndexOf(NEWLINE, end - 1)
    const ms = writtenMs(block.subarray(newline + 1, end))
    if (ms !== undefined) return ms
    end = newline
  }
  return undefined
}

function startsWith(line: Buffer, head: Buffer): boolean {
  return line.length >= head.length && line.compare(head, 0, head.length, 0, head.length) === 0
}
