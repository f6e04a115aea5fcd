import { logDirectory } from '../../audit/seals/tiles.ts'
import { segmentsOfTrail } from '../../audit/segments/trail-segments.ts'
import { exportLog } from '../../evidence/export-log.ts'
import { plural } from '../../terminal/printable.ts'
import { type Command, EXIT, print, UsageFault } from '../command.ts'
import { ABOUT_FILES, ableTo, FILES, LOG_FLAG, Progress, trailsNamed } from './trail-words.ts'

export const command: Command = {
  words: FILES,
  flags: { to: { value: 'DIR', about: 'the directory to make' }, ...LOG_FLAG },
  about: [
    'Writes a sealed trail in the form that other verifiers read: checkpoint, tiles and entry bundles of C2SP tlog-tiles. They are static files for any web server, readable only by their owner, and need as much disk space as the trail.',
    ABOUT_FILES,
  ],
  examples: [
    [
      'countersign audit export --to data/exported data/audit.ndjson',
      "for a verifier such as Tessera's fsck",
    ],
  ],
  fault: 'the trail differs from its log, or the log is damaged',
  unable: 'the command line is wrong, or a file cannot be read or written',
  async run({ words, flags }) {
    const to = flags.to
    if (to === undefined) throw new UsageFault('needs --to DIR')
    const trails = await trailsNamed(words)
    const [trail] = trails
    if (trail === undefined || trails.length > 1) throw new UsageFault('exports one trail: name it')
    const progress = new Progress('exporting')
    const directory = flags.log ?? logDirectory(trail.auditFile)
    // A gateway may have rotated the trail meanwhile.
    const listAgain = () => segmentsOfTrail(trail.auditFile)
    const { checkpoint, bundles } = await ableTo(() =>
      exportLog(trail.isWhole ? listAgain : trail.segments, directory, to, progress.show),
    )
    progress.clear()
    print(
      `${to}: ${plural(checkpoint.size, 'entry', 'entries')} of ${checkpoint.origin} in ${plural(bundles, 'bundle')}`,
    )
    return EXIT.good
  },
}
