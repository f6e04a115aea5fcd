import { CONNECTION_WINDOW } from './connection-frames.ts'
import {
  DEFAULT_WINDOW,
  frameOfNumbers,
  SETTINGS_MAX_CONCURRENT_STREAMS,
  SETTINGS_MAX_HEADER_LIST_SIZE,
  settingsFrame,
  WINDOW_UPDATE,
} from './frames.ts'
import { MAX_HEAD_BYTES } from './stream-head.ts'
import { MAX_STREAMS } from './stream-places.ts'

/** What every connection begins with (RFC 9113 section 3.4). */
export const GREETING = Buffer.concat([
  settingsFrame([
    [SETTINGS_MAX_CONCURRENT_STREAMS, MAX_STREAMS],
    [SETTINGS_MAX_HEADER_LIST_SIZE, MAX_HEAD_BYTES],
  ]),
  frameOfNumbers(WINDOW_UPDATE, 0, CONNECTION_WINDOW - DEFAULT_WINDOW),
])
