/** How many times more often random tests run under `npm run test:long`. */
export const LONGER = Number(process.env.TEST_LONG ?? '1')
