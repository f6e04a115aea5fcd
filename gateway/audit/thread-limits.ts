import type { ResourceLimits } from 'node:worker_threads'

/** Heap of the threads that seal and that ask witnesses. What others send can cost such a thread its memory, and no other thread. */
export const THREAD_LIMITS: ResourceLimits = {
  // Not less. The gateway is started with 32 MiB for young objects, in every thread. V8 marks old objects without end while it has no
  // room for a whole young generation below this limit: that took a sixth of the CPU time of the gateway.
  maxOldGenerationSizeMb: 128,
}
