import { setTimeout as sleep } from 'node:timers/promises';
import { OperatorError } from '../errors.ts';
import { endOnUncaught, failureFields, isPretty, type Log, openLog } from '../log.ts';
import { createMetrics, type Metrics } from '../metrics/metrics.ts';
import { RelayedKeys } from '../service/keys/key-feed.ts';
import { License } from '../service/license.ts';
import { RemoteBuckets } from '../service/limits/primary-buckets.ts';
import { joinVault, type Vault } from '../service/vault.ts';
import { CLOSE_TIMEOUT_MS } from '../timeouts.ts';
import { PublicListener } from './public-listener.ts';
import type { FromWorker, StartMessage, ToWorker } from './worker-messages.ts';

/**
 * The entry of a worker: one of several processes that answer on the port. The primary has it
 * start, drain and end; when the primary is gone, node:cluster ends it.
 */
interface Worker {
  readonly vault: Vault;
  readonly listener: PublicListener;
  readonly metrics: Metrics;
  readonly keys: RelayedKeys;
  readonly log: Log;
}

// They reach the whole process group at a terminal; the primary decides what they mean.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR1'] as const) {
  process.on(signal, () => {});
}

process.once('message', (message: StartMessage) => {
  start(message).then(serve, fail);
});
void send({ kind: 'loaded' });

async function start({ number, config, keys: news, tls }: StartMessage): Promise<Worker> {
  const log = await openLog({
    level: config.LOG_LEVEL,
    is_pretty: isPretty(config.LOG_FORMAT),
    worker: number,
  });
  endOnUncaught(log);
  const metrics = createMetrics(String(number));
  const license = new License(config.license);
  await license.start();
  const buckets = new RemoteBuckets((calls) => void send({ kind: 'take', calls }));
  // They are asked before this process listens, which can take long.
  process.on('message', (message: ToWorker) => {
    if (message.kind === 'granted') buckets.put(message.answers);
  });
  const keys = new RelayedKeys(news, () => void send({ kind: 'keys_wanted' }));
  const vault = joinVault(config.vault, news.keys);
  const options = {
    config,
    vault,
    keys,
    license,
    primary_buckets: buckets,
    worker: number,
    tls,
    metrics,
    log,
  };
  return { vault, listener: await PublicListener.open(options), metrics, keys, log };
}

function serve(worker: Worker): void {
  process.on('message', (message: ToWorker) => {
    if (message.kind === 'keys') worker.keys.put(message.news);
    else if (message.kind === 'renew') worker.listener.renew(message.tls);
    else if (message.kind === 'scrape') void sendMetrics(worker, message.id, message.is_sample);
    else if (message.kind === 'retire') void worker.listener.retire().then(() => end(worker));
    else if (message.kind === 'stop')
      void worker.listener.drain(message.delay_ms).then(() => end(worker));
  });
  void send({ kind: 'listening' });
}

async function sendMetrics({ metrics }: Worker, id?: number, is_sample = false): Promise<void> {
  const snapshot = await (is_sample ? metrics.sampled() : metrics.snapshot());
  await send({ kind: 'metrics', id, snapshot });
}

async function end(worker: Worker): Promise<void> {
  await sendMetrics(worker);
  await Promise.race([worker.vault.close(), sleep(CLOSE_TIMEOUT_MS)]);
  worker.log.end(0);
}

async function fail(error: unknown): Promise<void> {
  const { error: name, code = name } = failureFields(error);
  const problems =
    error instanceof OperatorError ? error.problems : [`A worker could not start (${code}).`];
  await send({ kind: 'failed', problems });
  process.exit(1);
}

/** Resolves when it is on its way; a primary that is gone is no failure of the sender. */
function send(message: FromWorker): Promise<void> {
  return new Promise((resolve) => process.send!(message, () => resolve()));
}
