import { LONGEST, small } from './loads.ts';
import { type Bench, type Entrant, measure, secondsOf, type Turn } from './turns.ts';

/** Multiple of the rate that the service has just reached. */
const FLOOD_FACTOR = 3;
const AFTER_SHARE = 0.5;
/** Time for the service to recover. */
const RECOVERY_S = 2;
const CONNECTIONS = 256;
/** More connections than waiting requests, as long as the service answers quickly. */
const FLOOD_CONNECTIONS = 2_000;

const TITLE = `Overload: ${FLOOD_FACTOR} times capacity`;
const NOTE = `Standin on PostgreSQL. The peak is found anew in each round, with as many requests as answers; then requests come at ${FLOOD_FACTOR} times its rate, whatever the answers do, from a process on the same processors. GET /health/live is asked all the time. *After* is ${100 * AFTER_SHARE} % of the peak, ${RECOVERY_S} s after the flood.`;

/** Three times the capacity, and the recovery. */
export async function measureOverload(bench: Bench, [entrant]: readonly Entrant[]): Promise<void> {
  for (const operation of ['tokenize', 'detokenize'] as const) {
    for (let round = 0; round <= bench.rounds; round++) {
      await measureRound(bench, entrant!, operation, round);
    }
  }
  bench.results.note(TITLE, NOTE);
}

/** Measures the peak first, because the machine's speed varies. */
async function measureRound(
  bench: Bench,
  { contestant, prepared }: Entrant,
  operation: 'tokenize' | 'detokenize',
  round: number,
): Promise<void> {
  const load = small(operation, CONNECTIONS);
  const seconds = secondsOf(bench, round);
  const job = load.job(prepared);
  const peak = await measure(bench, contestant, load, seconds, job);
  const send = (title: string, share: number, seconds: number) => {
    const flood = { title, connections: FLOOD_CONNECTIONS, isWatched: true };
    const intervalMs = 1_000 / (share * peak.rate);
    return measure(bench, contestant, flood, seconds, { ...job, intervalMs }, true);
  };
  const flood = await send(`flood of ${operation}`, FLOOD_FACTOR, seconds);
  await send('recovery', AFTER_SHARE, RECOVERY_S);
  const after = await send(`${operation} after the flood`, AFTER_SHARE, seconds / 2);
  if (round > 0) bench.results.add(TITLE, operation, round, figures(peak, flood, after));
}

function figures(peak: Turn, flood: Turn, after: Turn) {
  const { right, shed } = flood.result;
  return {
    'right answers, % of the peak': (100 * flood.rate) / peak.rate,
    '200: p50 ms': right.p50Ms,
    '200: p99 ms': right.p99Ms,
    '503, % of all': (100 * shed.count) / (right.count + shed.count),
    '503: p50 ms': shed.p50Ms,
    '503: p99 ms': shed.p99Ms,
    [LONGEST]: flood.heldUpMs,
    'after: p99 ms': after.result.right.p99Ms,
    'after: 503': after.result.shed.count,
  };
}
