/**
 * What the gateway uses of `node:http`, taken from it without an import: that asks for every name there is, also for those
 * of the WebSocket client, behind which Node then loads a client for HTTP that nobody here uses: 30 ms of the start.
 */
export const { createServer, METHODS, STATUS_CODES } = process.getBuiltinModule('node:http')
