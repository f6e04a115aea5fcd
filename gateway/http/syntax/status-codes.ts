/**
 * What the gateway uses of `node:http`. An import would read every export, also the WebSocket client, for which Node then
 * loads an HTTP client that is not used here: 30 ms of the start.
 */
export const { createServer, METHODS, STATUS_CODES } = process.getBuiltinModule('node:http')
