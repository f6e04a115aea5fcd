import { transport } from './scripted.test-support.ts'

/**
 * Runs the contract's tests of attempts, time, flow, retries and circuit breakers over HTTP/2. Its other tests are
 * written byte by byte for HTTP/1.1; upstream/http2/ has such tests in frames.
 */
transport.http2 = true
await import('./attempts.test.ts')
await import('./flow.test.ts')
await import('./guarded.test.ts')
await import('./retries.test.ts')
await import('./time.test.ts')
