import {
  type CallOptions,
  type ChannelCredentials,
  type Client,
  type ClientDuplexStream,
  type ClientReadableStream,
  type ClientUnaryCall,
  type ClientWritableStream,
  loadPackageDefinition,
  Metadata,
  type requestCallback,
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerReadableStream,
  type ServerUnaryCall,
  type ServerWritableStream,
  type ServiceClientConstructor,
  type sendUnaryData,
  status,
} from '@grpc/grpc-js'
import { fromJSON } from '@grpc/proto-loader'

export interface Note {
  readonly text: string
}

/** The client's own type lacks the methods of `Notes`. */
export interface NoteClient extends Client {
  one(note: Note, metadata: Metadata, options: CallOptions, done: requestCallback<Note>): ClientUnaryCall
  many(note: Note): ClientReadableStream<Note>
  gather(done: requestCallback<Note>): ClientWritableStream<Note>
  talk(): ClientDuplexStream<Note, Note>
}

const method = (requestStream: boolean, responseStream: boolean) => ({
  requestType: 'Note',
  responseType: 'Note',
  requestStream,
  responseStream,
  comment: '',
})

const DEFINITION = fromJSON(
  {
    nested: {
      demo: {
        nested: {
          Note: { fields: { text: { type: 'string', id: 1 } } },
          Notes: {
            methods: {
              One: method(false, false),
              Many: method(false, true),
              Gather: method(true, false),
              Talk: method(true, true),
            },
          },
        },
      },
    },
  },
  {},
)
const { demo } = loadPackageDefinition(DEFINITION) as unknown as {
  demo: { Notes: ServiceClientConstructor }
}

export function noteClient(address: string, creds: ChannelCredentials): NoteClient {
  const options = { 'grpc.max_receive_message_length': 32 * 1024 * 1024 }
  return new demo.Notes(address, creds, options) as unknown as NoteClient
}

export interface Seen {
  readonly metadata: Metadata[]
  readonly cancelled: string[]
}

/** A gRPC service on a free port. */
export async function startService(
  seen: Seen,
  creds = ServerCredentials.createInsecure(),
): Promise<{ readonly port: number; stop(): void }> {
  const server = new Server({ 'grpc.max_receive_message_length': 32 * 1024 * 1024 })
  server.addService(demo.Notes.service, {
    one: (call: ServerUnaryCall<Note, Note>, done: sendUnaryData<Note>) => one(seen, call, done),
    many: (call: ServerWritableStream<Note, Note>) => many(seen, call),
    gather: (call: ServerReadableStream<Note, Note>, done: sendUnaryData<Note>) => {
      let text = ''
      call.on('data', (note: Note) => {
        text += note.text
      })
      call.on('end', () => done(null, { text }))
    },
    talk: (call: ServerDuplexStream<Note, Note>) => {
      call.on('data', (note: Note) => call.write({ text: `${note.text}!` }))
      call.on('end', () => call.end())
      call.on('cancelled', () => seen.cancelled.push('talk'))
    },
  })
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', creds, (error, bound) => (error ? reject(error) : resolve(bound)))
  })
  return { port, stop: () => server.forceShutdown() }
}

function one(seen: Seen, call: ServerUnaryCall<Note, Note>, done: sendUnaryData<Note>): void {
  const { text } = call.request
  seen.metadata.push(call.metadata)
  call.on('cancelled', () => seen.cancelled.push(text))
  if (text === 'wait') return
  if (text === 'away') {
    done({ code: status.UNAVAILABLE, details: 'not now' })
    return
  }
  if (text === 'fail') {
    const metadata = new Metadata()
    metadata.set('x-why-bin', Buffer.from([0, 1, 255]))
    metadata.set('server', 'its own')
    done({ code: status.FAILED_PRECONDITION, details: 'not possible: 100 % über', metadata })
    return
  }
  const head = new Metadata()
  head.set('x-head', text === 'spaces' ? ' also here ' : 'at the beginning')
  call.sendMetadata(head)
  const trailer = new Metadata()
  trailer.set('x-trailer', text === 'spaces' ? ' and here ' : 'at the end')
  done(null, { text: `hello ${text}` }, trailer)
}

function many(seen: Seen, call: ServerWritableStream<Note, Note>): void {
  const { text } = call.request
  call.on('cancelled', () => seen.cancelled.push(text))
  if (text === 'endless') {
    call.write({ text: 'first' })
    return
  }
  for (let i = 0; i < 3; i++) call.write({ text: `${text} ${i}` })
  call.end()
}
