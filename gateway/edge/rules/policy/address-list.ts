import type { BlockList } from 'node:net'
import { isTrusted } from '../client-address.ts'

export interface AddressList {
  /** Undefined: everybody. */
  readonly allow: BlockList | undefined
  readonly deny: BlockList | undefined
}

/** Whether an address is kept out: `deny` comes before `allow`, and what is no IP address is on no list. */
export function isKeptOut(address: string, { allow, deny }: AddressList): boolean {
  if (deny !== undefined && isTrusted(address, deny)) return true
  return allow !== undefined && !isTrusted(address, allow)
}
