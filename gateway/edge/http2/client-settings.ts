import {
  DEFAULT_WINDOW,
  FLOW_CONTROL_ERROR,
  MAX_PAYLOAD_BYTES,
  MAX_WINDOW,
  PROTOCOL_ERROR,
  SETTINGS_ENABLE_PUSH,
  SETTINGS_HEADER_TABLE_SIZE,
  SETTINGS_INITIAL_WINDOW_SIZE,
  SETTINGS_MAX_FRAME_SIZE,
} from './frames.ts'

const LARGEST_MAX_FRAME_SIZE = 2 ** 24 - 1

/** What of a client's SETTINGS matters to us (RFC 9113 section 6.5.2): we push nothing, and send short frames only. */
export class ClientSettings {
  initialWindow = DEFAULT_WINDOW
  /** The next head must say how much of the client's table we use (RFC 9113 section 4.3.1). */
  isTableResized = false

  /** @param payload whole entries @returns the error code of a value that is not allowed */
  take(payload: Buffer): number | undefined {
    for (let at = 0; at < payload.length; at += 6) {
      const id = payload.readUInt16BE(at)
      const value = payload.readUInt32BE(at + 2)
      if (id === SETTINGS_INITIAL_WINDOW_SIZE) {
        if (value > MAX_WINDOW) return FLOW_CONTROL_ERROR
        this.initialWindow = value
      } else if (id === SETTINGS_HEADER_TABLE_SIZE) this.isTableResized = true
      else if (id === SETTINGS_ENABLE_PUSH && value > 1) return PROTOCOL_ERROR
      else if (
        id === SETTINGS_MAX_FRAME_SIZE &&
        (value < MAX_PAYLOAD_BYTES || value > LARGEST_MAX_FRAME_SIZE)
      )
        return PROTOCOL_ERROR
    }
    return undefined
  }
}
