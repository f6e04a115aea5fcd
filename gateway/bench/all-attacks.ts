import { ATTACKS, type Attack } from './client-attacks.ts'
import { HTTP2_ATTACKS } from './http2-attacks.ts'
import { PIECE_ATTACKS } from './piece-attacks.ts'

export const ALL_ATTACKS: Readonly<Record<string, Attack>> = {
  ...ATTACKS,
  ...HTTP2_ATTACKS,
  ...PIECE_ATTACKS,
}
