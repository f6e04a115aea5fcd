import { launch } from './launch.mjs'

/** `node launcher/main.mjs [options of Node] program [arguments]`: what every npm script runs its program with. */
launch(process.argv.slice(2))
