/** `small` takes less memory and somewhat more CPU, for a gateway beside each of many services. */
export type MemoryProfile = (typeof MEMORY_PROFILES)[number]

export const MEMORY_PROFILES = ['fast', 'small'] as const

/** No file has the profile, since it is needed before a file is read. */
export function memoryProfileOf({
  GATEWAY_PROFILE: text,
}: Readonly<Record<string, string | undefined>>): MemoryProfile {
  return text === 'small' ? 'small' : 'fast'
}
