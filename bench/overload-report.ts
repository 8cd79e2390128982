import { milliseconds } from './cells.ts';
import { table, whole } from './markdown.ts';
import { median } from './measure.ts';
import {
  AFTER_SHARE,
  FLOOD_FACTOR,
  goodput,
  OPERATIONS,
  type OverloadRound,
  RECOVERY_MS,
} from './overload.ts';

export function overloadSection(rounds: readonly OverloadRound[]): string {
  const headings = [
    '',
    'right answers, of the peak',
    '200: p50 ms',
    '200: p99 ms',
    '503, of all',
    '503: p50 ms',
    '503: p99 ms',
    'after: p99 ms',
    'after: 503',
  ];
  const rows = OPERATIONS.map((operation) => {
    const ofOperation = rounds.filter((round) => round.operation === operation);
    const middle = (figure: (round: OverloadRound) => number) =>
      median(ofOperation.map(figure)) ?? Number.NaN;
    return [
      operation,
      percent(middle(goodput)),
      milliseconds(middle(({ flood }) => flood.ok.p50_ms)),
      milliseconds(middle(({ flood }) => flood.ok.p99_ms)),
      percent(middle(({ flood }) => flood.shed.count / flood.offered)),
      milliseconds(middle(({ flood }) => flood.shed.p50_ms)),
      milliseconds(middle(({ flood }) => flood.shed.p99_ms)),
      milliseconds(middle(({ after }) => after.ok.p99_ms)),
      whole(middle(({ after }) => after.shed.count)),
    ];
  });
  return [
    `## Overload: ${FLOOD_FACTOR} times capacity`,
    table(headings, rows),
    `Medians of the rounds. The peak is found anew in each round, with as many requests as answers; then requests come at ${FLOOD_FACTOR} times its rate, whatever the answers do, from a process on the same processors. *After* is ${percent(AFTER_SHARE)} of the peak, ${RECOVERY_MS / 1_000} s after the flood.`,
  ].join('\n\n');
}

/** Answers that are neither correct nor a refusal. */
export function failuresOfRound({ flood, after }: OverloadRound): number {
  const failures = [...Object.values(flood.failures), ...Object.values(after.failures)];
  return failures.reduce((sum, count) => sum + count, flood.unanswered + after.unanswered);
}

function percent(share: number): string {
  return `${Math.round(100 * share)} %`;
}
