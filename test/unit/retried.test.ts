import { expect, onTestFinished, test, vi } from 'vitest';
import { Unavailable } from '../../src/errors.ts';
import { persistently } from '../../src/records/record-scan.ts';
import { ReadOnlyServer, retried } from '../../src/store/database-error.ts';

const soon = () => performance.now() + 60_000;

/** Fails so often, then answers. */
function failing(times: number, error: Error): () => Promise<string> {
  let left = times;
  return async () => {
    if (left-- > 0) throw error;
    return 'answered';
  };
}

test.each([
  ['a server that is read-only for a moment, as during a promotion', new ReadOnlyServer()],
  ['a server that is away', new Unavailable(new Error('gone'))],
])('%s fails no request that has time left, at most for the next pause', async (_, error) => {
  const pauses = vi.spyOn(globalThis, 'setTimeout');
  onTestFinished(() => pauses.mockRestore());
  expect(await retried(soon(), failing(2, error))).toBe('answered');
  expect(pauses.mock.calls.map(([, pauseMs]) => pauseMs)).toEqual([25, 50]);
  await expect(retried(performance.now() + 25, failing(1, error))).rejects.toBe(error);
});

test('a server that stays read-only is told long before the deadline, one that is away at it', async () => {
  const readOnly = retried(soon(), failing(Infinity, new ReadOnlyServer()));
  await expect(readOnly).rejects.toThrow(ReadOnlyServer);
  const away = retried(performance.now() + 50, failing(Infinity, new Unavailable(undefined)));
  await expect(away).rejects.toThrow(Unavailable);
});

test('a command that is stopped while the database is away ends at once', async () => {
  const stop = new AbortController();
  const attempt = async () => {
    if (stop.signal.aborted) expect.unreachable();
    stop.abort();
    throw new Unavailable(undefined);
  };
  await expect(persistently(stop.signal, attempt)).rejects.toThrow(Unavailable);
});

test('what is no outage is not tried again', async () => {
  const error = new TypeError('a mistake');
  await expect(retried(soon(), failing(1, error))).rejects.toBe(error);
});
