import { type Readable, Transform } from 'node:stream'

/**
 * Passes on a body of unknown length up to a bound. Beyond it, `onExceeded` is called once and the stream is destroyed,
 * so that its reader never takes it for complete.
 */
export function boundedBody(
  body: Readable,
  options: { readonly maxBytes: number; readonly onExceeded: () => void },
): Readable {
  let bytes = 0
  const bounded = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length
      if (bytes <= options.maxBytes) return done(null, chunk)
      body.unpipe(bounded)
      options.onExceeded()
      bounded.destroy()
    },
  })
  body.on('close', () => {
    if (!body.readableEnded) bounded.destroy(new Error('the request body was broken off'))
  })
  bounded.on('error', () => body.unpipe(bounded))
  return body.pipe(bounded)
}
