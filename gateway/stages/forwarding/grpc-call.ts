import type { Exchange } from '../../exchange.ts'
import { isGrpc } from '../../http/rules/grpc.ts'

/** Whether an exchange is a call of gRPC. What its client says is not enough: a service of HTTP/1.1 answers none. */
export function isGrpcCall({ req, route }: Pick<Exchange, 'req' | 'route'>): boolean {
  return route?.client.speaksHttp2 === true && isGrpc(req)
}
