import { launch } from './launch.mjs'

/** `node launcher/main.mjs [options of Node] program [arguments]` */
launch(process.argv.slice(2))
