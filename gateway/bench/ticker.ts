import { parentPort, workerData } from 'node:worker_threads'

// A thread that sends a message every `workerData` milliseconds.

const never = new Int32Array(new SharedArrayBuffer(4))
for (;;) {
  Atomics.wait(never, 0, 0, workerData as number)
  parentPort?.postMessage(0)
}
