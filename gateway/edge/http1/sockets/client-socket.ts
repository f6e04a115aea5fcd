import { type Server, Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { copyOf, ReadBuffer } from '../../bodies/read-buffers.ts'

/** Takes what a client sends, in place of the socket's stream. */
export interface ClientReader {
  /** @param bytes the first `length` bytes are new; the next read overwrites them */
  received(bytes: Buffer, length: number): void
}

/** Undocumented parts of Node's servers. */
interface WithHandle {
  readonly _handle: {
    onconnection?: (this: unknown, error: unknown, accepted: object | undefined) => void
  } | null
}

class ClientInput {
  readonly buffer = new ReadBuffer('clients')
  socket: Socket | undefined = undefined
  reader: ClientReader | undefined = undefined

  received(length: number): boolean {
    const { bytes } = this.buffer
    const { socket, reader } = this
    if (socket === undefined) return true
    // Bytes in the stream come first.
    if (reader === undefined || socket.isPaused() || socket.readableLength > 0)
      return socket.push(copyOf(bytes, 0, length))
    reader.received(bytes, length)
    return true
  }
}

/** A client's socket that reads into a buffer of ours. Without a reader it is a stream like every socket. */
export class ClientSocket extends Socket {
  readonly #input: ClientInput

  constructor(accepted: object, input = new ClientInput()) {
    const onread = {
      buffer: () => input.buffer.next(),
      callback: (length: number) => input.received(length),
    }
    super({ handle: accepted, allowHalfOpen: true, onread } as object)
    this.#input = input
    input.socket = this
  }

  /** Pauses, but reads on until the stream is full, to notice when the client goes. */
  override pause(): this {
    return Duplex.prototype.pause.call(this) as this
  }

  /** Pauses, and reads nothing ahead. */
  holdBack(): void {
    super.pause()
  }

  /** Reads one piece ahead while paused, unless the stream is full. */
  readAhead(): void {
    if (this.readableLength < this.readableHighWaterMark) this.read(0)
  }

  get buffer(): ReadBuffer {
    return this.#input.buffer
  }

  set reader(reader: ClientReader | undefined) {
    this.#input.reader = reader
  }
}

/** Gives `reader` what comes. @returns a function that stops this, pauses, and puts unread bytes back or returns them */
export function readClient(
  socket: Socket,
  reader: ClientReader,
): (unread: Buffer | undefined) => Buffer | undefined {
  const onData = (bytes: Buffer): void => reader.received(bytes, bytes.length)
  if (socket instanceof ClientSocket) socket.reader = reader
  socket.on('data', onData)
  return (unread) => {
    if (socket instanceof ClientSocket) socket.reader = undefined
    socket.off('data', onData)
    socket.pause()
    if (unread === undefined || socket.readableEnded) return unread
    socket.unshift(unread)
    return undefined
  }
}

/** Makes a server's sockets `ClientSocket`s by an undocumented callback of Node. Without it they stay plain sockets. */
export function acceptClientSockets(server: Server): void {
  server.on('listening', () => {
    const handle = (server as unknown as WithHandle)._handle
    const accept = handle?.onconnection
    if (handle === null || accept === undefined) return
    handle.onconnection = function (error, accepted) {
      if (error || accepted === undefined) accept.call(this, error, accepted)
      else server.emit('connection', new ClientSocket(accepted))
    }
  })
}
