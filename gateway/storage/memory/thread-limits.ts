import type { ResourceLimits } from 'node:worker_threads'

/** Heap of a thread beside those of requests. What others send can cost the thread its memory, and no other. */
export const THREAD_LIMITS: ResourceLimits = {
  // Not less. The gateway is started with 32 MiB for young objects, in every thread. V8 marks old objects without end while it has no
  // room for a whole young generation below this limit: that took a sixth of the CPU time of the gateway.
  maxOldGenerationSizeMb: 128,
}
