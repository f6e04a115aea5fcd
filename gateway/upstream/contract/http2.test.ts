import { transport } from './scripted.test-support.ts'

/**
 * What the contract says of attempts, time, flow, retries and circuit breakers, over HTTP/2. The rest of it is written byte by byte for
 * HTTP/1.1; upstream/http2/ has its like in frames.
 */
transport.http2 = true
await import('./attempts.test.ts')
await import('./flow.test.ts')
await import('./guarded.test.ts')
await import('./retries.test.ts')
await import('./time.test.ts')
