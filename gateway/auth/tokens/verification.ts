import type { Principal } from '../../principal.ts'
import type { Binding } from '../possession/binding.ts'
import type { TokenFault } from './token-fault.ts'

export interface VerifiedToken {
  readonly principal: Principal
  readonly binding: Binding | undefined
  /** The name of its issuer. */
  readonly issuer: string
  readonly fault?: never
}

/**
 * The principal of a token, or why it is refused. With a `binding`, the caller must also prove possession at every use
 * (`provePossession`). Shared by all uses of the token; immutable.
 */
export type Verification =
  | VerifiedToken
  | {
      readonly fault: TokenFault
      readonly principal?: never
      readonly binding?: never
      readonly issuer?: never
    }
